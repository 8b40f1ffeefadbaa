#include "report/plan.hpp"
#include "text/json.hpp"

namespace rocca::report {

namespace {

// Written as JSON because that is what it is read as; the test holds to_value against it.
constexpr std::string_view schema = R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "rocca plan",
  "description": "What `rocca plan -o json` prints: everything `rocca up` would do, with its reasons.",
  "type": "object",
  "additionalProperties": false,
  "required": ["cluster", "empty", "summary", "effect", "steps", "failed", "boundTo"],
  "properties": {
    "cluster": {"type": "string"},
    "notice": {"type": "string", "description": "What has to be known before the steps, such as an interrupted teardown."},
    "empty": {"type": "boolean", "description": "Nothing to do, and everything could be read."},
    "summary": {
      "type": "object",
      "additionalProperties": false,
      "required": ["create", "update", "replace", "destroy", "unchanged", "refused", "unread"],
      "properties": {
        "create": {"type": "integer", "minimum": 0},
        "update": {"type": "integer", "minimum": 0},
        "replace": {"type": "integer", "minimum": 0},
        "destroy": {"type": "integer", "minimum": 0},
        "unchanged": {"type": "integer", "minimum": 0},
        "refused": {"type": "integer", "minimum": 0},
        "unread": {"type": "integer", "minimum": 0, "description": "What could not be read: see failed."}
      }
    },
    "effect": {"$ref": "#/$defs/effect", "description": "The costliest of all changes."},
    "steps": {
      "type": "array",
      "description": "In an order that respects every dependency; unchanged things are left out.",
      "items": {
        "type": "object",
        "additionalProperties": false,
        "required": ["address", "action", "effect", "reason", "fields", "needs"],
        "properties": {
          "address": {"type": "string", "description": "Kind, a slash, a name: vm/cp-1"},
          "action": {"enum": ["none", "create", "update", "replace", "destroy"]},
          "effect": {"$ref": "#/$defs/effect"},
          "reason": {"type": "string"},
          "place": {"type": "string", "description": "Where the spec asks for it."},
          "id": {"type": "string", "description": "What the platform calls it, such as 104 on pve1; missing if it does not exist."},
          "fields": {
            "type": "array",
            "items": {
              "type": "object",
              "additionalProperties": false,
              "required": ["field", "before", "after", "effect"],
              "properties": {
                "field": {"type": "string"},
                "before": {"type": "string", "description": "Empty: not there."},
                "after": {"type": "string"},
                "effect": {"$ref": "#/$defs/effect"}
              }
            }
          },
          "needs": {"type": "array", "items": {"type": "string"}},
          "turn": {"type": "string", "description": "How it is held back: one control plane at a time, one worker first."},
          "refusal": {"type": "string", "description": "Why it cannot be done."},
          "hint": {"type": "string"},
          "estimateSeconds": {"type": "number", "minimum": 0}
        }
      }
    },
    "talos": {"type": "string", "description": "Version, with v."},
    "kubernetes": {"type": "string", "description": "Version, with v."},
    "vip": {"type": "string", "description": "The address that the control planes share."},
    "nodes": {
      "type": "array",
      "description": "Every node as spec and lock describe it.",
      "items": {
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "role", "existing", "disks", "macs"],
        "properties": {
          "name": {"type": "string"},
          "role": {"enum": ["controlplane", "worker"]},
          "existing": {"type": "boolean", "description": "A machine that rocca did not create."},
          "vmid": {"type": "integer", "minimum": 1},
          "host": {"type": "string"},
          "address": {"type": "string", "description": "Missing with DHCP."},
          "cores": {"type": "integer", "minimum": 1},
          "memoryBytes": {"type": "integer", "minimum": 1},
          "disks": {
            "type": "array",
            "items": {
              "type": "object",
              "additionalProperties": false,
              "required": ["name", "sizeBytes"],
              "properties": {
                "name": {"type": "string"},
                "sizeBytes": {"type": "integer", "minimum": 1},
                "storage": {"type": "string"}
              }
            }
          },
          "macs": {"type": "array", "items": {"type": "string"}, "description": "One for each NIC, known before the VM exists."}
        }
      }
    },
    "failed": {
      "type": "object",
      "description": "What could not be read, and why.",
      "additionalProperties": {"type": "string"}
    },
    "kept": {
      "type": "object",
      "description": "What is left over and stays, and why.",
      "additionalProperties": {"type": "string"}
    },
    "estimateSeconds": {"type": "number", "minimum": 0},
    "boundTo": {"type": "string", "description": "Digest of what was wanted and what was seen."}
  },
  "$defs": {
    "effect": {
      "enum": ["none", "live", "service", "reboot", "power-cycle", "replace", "data-loss"]
    }
  }
})json";

}  // namespace

text::Value plan_schema() {
  return text::parse_json(schema, "plan schema");
}

}  // namespace rocca::report
