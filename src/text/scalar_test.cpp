#include "text/scalar.hpp"

#include <gmock/gmock.h>

#include <cmath>

namespace rocca::text {
namespace {

struct Typing {
  const char* text;
  Kind kind;
};

class PlainScalar : public testing::TestWithParam<Typing> {};

TEST_P(PlainScalar, IsTypedAsGoYamlTypesIt) {
  EXPECT_STREQ(to_string(resolve_plain(GetParam().text)), to_string(GetParam().kind))
      << "`" << GetParam().text << "`";
}

INSTANTIATE_TEST_SUITE_P(Words, PlainScalar,
                         testing::Values(Typing{"", Kind::Null}, Typing{"~", Kind::Null},
                                         Typing{"null", Kind::Null}, Typing{"Null", Kind::Null},
                                         Typing{"NULL", Kind::Null}, Typing{"nULL", Kind::String},
                                         Typing{"true", Kind::Bool}, Typing{"True", Kind::Bool},
                                         Typing{"TRUE", Kind::Bool}, Typing{"tRUE", Kind::String},
                                         Typing{"false", Kind::Bool}, Typing{"False", Kind::Bool},
                                         Typing{"FALSE", Kind::Bool}, Typing{"yes", Kind::String},
                                         Typing{"no", Kind::String}, Typing{"on", Kind::String},
                                         Typing{"off", Kind::String}, Typing{"y", Kind::String},
                                         Typing{"N", Kind::String}, Typing{"<<", Kind::String},
                                         Typing{"abc", Kind::String}, Typing{"-", Kind::String},
                                         Typing{"+", Kind::String}, Typing{".", Kind::String},
                                         Typing{"..", Kind::String}));

INSTANTIATE_TEST_SUITE_P(
    Numbers, PlainScalar,
    testing::Values(
        Typing{"0", Kind::Int}, Typing{"-0", Kind::Int}, Typing{"+12", Kind::Int},
        Typing{"0777", Kind::Int}, Typing{"08", Kind::Float}, Typing{"0o17", Kind::Int},
        Typing{"0O17", Kind::Int}, Typing{"0o8", Kind::String}, Typing{"0x1F", Kind::Int},
        Typing{"0XfF", Kind::Int}, Typing{"0x", Kind::String}, Typing{"0b101", Kind::Int},
        Typing{"-0b11", Kind::Int}, Typing{"0b2", Kind::String}, Typing{"0b-1", Kind::Int},
        Typing{"1_000", Kind::Int}, Typing{"_1", Kind::String}, Typing{"1__0_", Kind::Int},
        Typing{"9223372036854775807", Kind::Int}, Typing{"-9223372036854775808", Kind::Int},
        Typing{"18446744073709551615", Kind::Int}, Typing{"18446744073709551616", Kind::Float},
        Typing{"+18446744073709551615", Kind::Float}, Typing{"-9223372036854775809", Kind::Float},
        Typing{"0x10000000000000000", Kind::String}, Typing{"1.5", Kind::Float},
        Typing{".5", Kind::Float}, Typing{"5.", Kind::Float}, Typing{"1e3", Kind::Float},
        Typing{"1E-3", Kind::Float}, Typing{"1e", Kind::String}, Typing{"1e999", Kind::String},
        Typing{"1e-999", Kind::Float}, Typing{"-.5", Kind::Float}, Typing{"1_0.5", Kind::Float},
        Typing{".5_0", Kind::Float}, Typing{"._5", Kind::String}, Typing{".inf", Kind::Float},
        Typing{"-.Inf", Kind::Float}, Typing{"+.INF", Kind::Float}, Typing{".iNF", Kind::String},
        Typing{".nan", Kind::Float}, Typing{".NaN", Kind::Float}, Typing{"nan", Kind::String},
        Typing{"inf", Kind::String}, Typing{"0x1p3", Kind::String}, Typing{"1.2.3", Kind::String},
        Typing{"10.0.0.1", Kind::String}, Typing{"1:30", Kind::String},
        Typing{"190:20:30", Kind::String}, Typing{"--1", Kind::String}));

INSTANTIATE_TEST_SUITE_P(
    Timestamps, PlainScalar,
    testing::Values(Typing{"2001-01-01", Kind::Timestamp}, Typing{"2001-1-1", Kind::Timestamp},
                    Typing{"2001-13-01", Kind::String}, Typing{"2001-02-29", Kind::String},
                    Typing{"2004-02-29", Kind::Timestamp}, Typing{"1900-02-29", Kind::String},
                    Typing{"2001-01-01T01:02:03Z", Kind::Timestamp},
                    Typing{"2001-01-01t1:2:3.5Z", Kind::Timestamp},
                    Typing{"2001-01-01T01:02:03", Kind::String},
                    Typing{"2001-01-01 01:02:03", Kind::Timestamp},
                    Typing{"2001-01-01   1:02:03", Kind::Timestamp},
                    Typing{"2001-01-01 01:02:03.123456789", Kind::Timestamp},
                    Typing{"2001-01-01 01:02:03Z", Kind::String},
                    Typing{"2001-01-01T01:02:03+02:00", Kind::Timestamp},
                    Typing{"2001-01-01T01:02:03+0200", Kind::String},
                    Typing{"2001-01-01T24:02:03Z", Kind::String},
                    Typing{"2001-01-01T23:59:60Z", Kind::String}, Typing{"201-01-01", Kind::String},
                    Typing{"20010-01-01", Kind::String}, Typing{"2001-01-01T", Kind::String}));

TEST(Numbers, HaveTheirValue) {
  EXPECT_EQ(Value::plain("0777").as_int(), 511);
  EXPECT_EQ(Value::plain("-0x1F").as_int(), -31);
  EXPECT_EQ(Value::plain("0b1_01").as_int(), 5);
  EXPECT_EQ(Value::plain("-9223372036854775808").as_int(), INT64_MIN);
  EXPECT_EQ(Value::plain("18446744073709551615").as_uint(), UINT64_MAX);
  EXPECT_EQ(Value::plain("18446744073709551615").as_int(), std::nullopt);
  EXPECT_EQ(Value::plain("-1").as_uint(), std::nullopt);
  EXPECT_EQ(Value::plain("08").as_float(), 8.0);
  EXPECT_EQ(Value::plain("1e3").as_float(), 1000.0);
  EXPECT_EQ(Value::plain("3").as_float(), 3.0);
  EXPECT_EQ(Value::plain("1e-999").as_float(), 0.0);
  EXPECT_TRUE(std::isinf(*Value::plain("-.inf").as_float()));
  EXPECT_TRUE(std::isnan(*Value::plain(".nan").as_float()));
  EXPECT_EQ(Value::plain("yes").as_bool(), std::nullopt);
  EXPECT_EQ(Value::string("true").as_bool(), std::nullopt);
}

TEST(Timestamps, AreWrittenAsGoWritesThem) {
  EXPECT_EQ(normal_timestamp("2001-1-2"), "2001-01-02T00:00:00Z");
  EXPECT_EQ(normal_timestamp("2001-01-02 3:4:5.500"), "2001-01-02T03:04:05.5Z");
  EXPECT_EQ(normal_timestamp("2001-01-02t03:04:05.1234567891+02:30"),
            "2001-01-02T03:04:05.123456789+02:30");
  EXPECT_EQ(normal_timestamp("2001-01-02T03:04:05-00:00"), "2001-01-02T03:04:05Z");
  EXPECT_EQ(normal_timestamp("tomorrow"), std::nullopt);
}

TEST(FloatText, IsShortAndStaysAFloat) {
  EXPECT_EQ(float_text(5), "5.0");
  EXPECT_EQ(float_text(0.1), "0.1");
  EXPECT_EQ(float_text(1e300), "1e+300");
  EXPECT_EQ(float_text(-INFINITY), "-.inf");
}

}  // namespace
}  // namespace rocca::text
