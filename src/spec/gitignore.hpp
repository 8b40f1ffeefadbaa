#pragma once

#include <string>
#include <string_view>

namespace rocca {
class Files;
}

namespace rocca::spec {

/// What Git must not take of a cluster's folder: access files, local state, temporary files of
/// writes that were killed. Ends with a newline.
std::string gitignore_text();

/// The content with the missing patterns behind the user's own lines; unchanged if none is missing.
std::string with_ignored(std::string_view content);

/// Makes sure that the folder's .gitignore has these patterns, before an access file is written
/// there: one `git add .` would publish the admin keys. Lines of the user stay as they are. Says
/// whether it was written.
bool keep_out_of_git(Files& files, const std::string& folder);

}  // namespace rocca::spec
