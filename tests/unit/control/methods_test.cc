#include "control/methods.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "control/json_rpc.h"
#include "tests/unit/control/fake_host.h"

namespace uzram::control {
namespace {

using Json = nlohmann::json;

class MethodsTest : public testing::Test {
 protected:
  Json ask(std::string_view line) {
    const std::string reply = answer(host_, line);
    EXPECT_EQ(reply.find('\n'), std::string::npos);
    return Json::parse(reply);
  }
  // The code of the error that `line` gets; 0 for a result.
  int code(std::string_view line) {
    const Json reply = ask(line);
    EXPECT_EQ(reply.at("jsonrpc"), "2.0");
    EXPECT_NE(reply.contains("result"), reply.contains("error"));
    return reply.contains("error") ? reply["error"].at("code").get<int>() : 0;
  }
  Json call(const char* method, Json params) { return ask(make_request(7, method, params).dump()); }

  test::FakeHost host_;
};

TEST_F(MethodsTest, WhatIsNotARequestIsRefusedByItsKind) {
  for (const char* line :
       {"", "{", "nonsense", "{\"a\":}", "\xff\xfe", "{\"method\":\"\xc3\x28\"}", "{} {}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"device.info\",\"id\":1", "NaN"}) {
    EXPECT_EQ(code(line), kParseError) << line;
  }
  for (const char* line :
       {"1", "null", "\"x\"", "true", "[]", "{}",
        "[{\"jsonrpc\":\"2.0\",\"method\":\"device.info\"}]",
        R"({"jsonrpc":"1.0","method":"device.info","id":1})", R"({"method":"device.info","id":1})",
        R"({"jsonrpc":2.0,"method":"device.info","id":1})", R"({"jsonrpc":"2.0","id":1})",
        R"({"jsonrpc":"2.0","method":7,"id":1})", R"({"jsonrpc":"2.0","method":"","id":1})",
        R"({"jsonrpc":"2.0","method":"device.info","id":[1]})",
        R"({"jsonrpc":"2.0","method":"device.info","id":{"a":1}})",
        R"({"jsonrpc":"2.0","method":"device.info","id":true})"}) {
    EXPECT_EQ(code(line), kInvalidRequest) << line;
  }
  EXPECT_TRUE(host_.acts.empty());
}

TEST_F(MethodsTest, HugeAndDeepInputIsRefused) {
  const std::string deep(kLineBytesMax / 2, '[');
  EXPECT_EQ(code(deep), kParseError);
  EXPECT_EQ(code(deep + std::string(deep.size(), ']')), kInvalidRequest);
  std::string objects;
  for (int i = 0; i < 10'000; ++i) objects += "{\"\":";
  EXPECT_EQ(code(objects), kParseError);
  const std::string params = R"({"jsonrpc":"2.0","id":1,"method":"device.get","params":{"name":)" +
                             std::string(20'000, '[') + std::string(20'000, ']') + "}}";
  EXPECT_EQ(code(params), kInvalidParams);
  EXPECT_EQ(code(std::string(kLineBytesMax + 1, ' ')), kInvalidRequest);
  EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":1e999,"method":"device.info"})"), kParseError);
}

TEST_F(MethodsTest, MethodsAndParametersAreStrict) {
  EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":1,"method":"device.nosuch"})"), kMethodNotFound);
  for (const char* rest :
       {R"("device.info","params":[])", R"("device.info","params":7)",
        R"("device.info","params":null)", R"("device.info","params":{"name":"x"})",
        R"("device.get")", R"("device.get","params":{"name":7})",
        R"("device.get","params":{"Name":"disksize"})", R"("device.set","params":{"name":"reset"})",
        R"("device.set","params":{"name":"mem_limit","value":4096})",
        R"("device.stop","params":{"force":1})", R"("device.stop","params":{"force":null})",
        R"("device.attach","params":{"argument":"x"})",
        R"("device.attach","params":{"kind":"nbd","argument":7})", R"("device.detach")"}) {
    EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":1,"method":)" + std::string(rest) + "}"),
              kInvalidParams)
        << rest;
  }
  EXPECT_TRUE(host_.acts.empty());
}

TEST_F(MethodsTest, RepliesCarryTheIdOfTheirRequest) {
  for (const char* id :
       {"1", "-1", "1.5", "\"x\"", "null", "18446744073709551615", "\"\\u0000\""}) {
    const Json reply =
        ask(R"({"jsonrpc":"2.0","method":"device.info","id":)" + std::string(id) + "}");
    EXPECT_EQ(reply.at("id"), Json::parse(id)) << id;
  }
  EXPECT_EQ(ask(R"({"jsonrpc":"2.0","method":"nosuch","id":"y"})").at("id"), "y");
  EXPECT_EQ(ask(R"({"jsonrpc":"1.0","method":"device.info","id":"z"})").at("id"), "z");
  EXPECT_TRUE(ask("{").at("id").is_null());
}

TEST_F(MethodsTest, NotificationsAreDoneWithoutAReply) {
  EXPECT_EQ(answer(host_, R"({"jsonrpc":"2.0","method":"device.reset"})"), "");
  EXPECT_EQ(answer(host_, R"({"jsonrpc":"2.0","method":"nosuch"})"), "");
  EXPECT_EQ(host_.acts, std::vector<std::string>{"reset"});
}

TEST_F(MethodsTest, InfoAndStatTellEverything) {
  const Json info = call("device.info", Json::object()).at("result");
  EXPECT_EQ(record_of_json(info).value(), host_.record());
  EXPECT_EQ(info.at("clients"), 0);
  const std::byte page[kPageBytes] = {};
  ASSERT_EQ(host_.device()->write(0, page), Status::ok);
  const Json stat = call("device.stat", Json::object()).at("result");
  EXPECT_EQ(stat.at("name"), "fake");
  EXPECT_EQ(stat.at("writes"), 1);
  EXPECT_EQ(stat.at("write_bytes"), kPageBytes);
  for (const char* name : {"orig_data_size", "compr_data_size", "mem_used_total", "mem_limit",
                           "mem_used_max", "huge_page_bytes", "notify_free"}) {
    EXPECT_TRUE(stat.at(name).is_number_unsigned()) << name;
  }
}

TEST_F(MethodsTest, ActsReachTheHost) {
  EXPECT_EQ(call("device.get", {{"name", "disksize"}}).at("result"),
            std::to_string(test::FakeHost::kSizeBytes));
  EXPECT_EQ(call("device.set", {{"name", "mem_limit"}, {"value", "1M"}}).at("result"), true);
  EXPECT_EQ(host_.device()->options().mem_limit_bytes, 1U << 20);
  EXPECT_EQ(call("device.reset", {{"force", true}}).at("result"), true);
  EXPECT_EQ(call("device.attach", {{"kind", "nbd"}, {"argument", "unix:/x"}}).at("result"),
            (Json{{"kind", "nbd"}, {"where", "there"}}));
  EXPECT_EQ(call("device.attach", {{"kind", "loop"}}).at("result").at("kind"), "loop");
  EXPECT_EQ(call("device.detach", {{"kind", "nbd"}, {"force", false}}).at("result"), true);
  EXPECT_EQ(call("device.stop", Json::object()).at("result"), true);
  EXPECT_EQ(host_.acts, (std::vector<std::string>{"reset!", "attach nbd unix:/x", "attach loop ",
                                                  "detach nbd", "stop"}));
}

TEST_F(MethodsTest, RefusalsCarryTheirStatus) {
  host_.refusal = Error{Status::busy, "loop: mounted"};
  const Json error = call("device.stop", Json::object()).at("error");
  EXPECT_EQ(error.at("code"), kServerError);
  EXPECT_EQ(error.at("message"), "loop: mounted");
  EXPECT_EQ(error.at("data").at("status"), "busy");
  const auto back = parse_reply(call("device.stop", Json::object()).dump());
  ASSERT_FALSE(back.has_value());
  EXPECT_EQ(back.error().status, Status::busy);
  EXPECT_EQ(back.error().message, "loop: mounted");
  EXPECT_EQ(call("device.set", {{"name", "mem_limit"}, {"value", "x"}}).at("error").at("code"),
            kInvalidParams);
}

TEST_F(MethodsTest, NoMutationOfARequestIsMoreThanAnError) {
  const std::string good =
      R"({"jsonrpc":"2.0","id":1,"method":"device.get","params":{"name":"disksize"}})";
  std::mt19937 random(20240611);
  for (int round = 0; round < 20'000; ++round) {
    std::string line = good;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const std::size_t at = random() % line.size();
      if (random() % 2 == 0) {
        line[at] = static_cast<char>(random() & 0xff);
      } else {
        line.erase(at, 1);
      }
    }
    const std::string reply = answer(host_, line);
    EXPECT_TRUE(reply.empty() || Json::accept(reply)) << line;
  }
  EXPECT_TRUE(host_.acts.empty());
}

TEST(StatusNames, AreReadBackAsThemselves) {
  for (int value = 1; value <= static_cast<int>(Status::shutting_down); ++value) {
    const auto status = static_cast<Status>(value);
    const Json reply = make_error(1, rpc_error({status, "x: y"}));
    EXPECT_EQ(parse_reply(reply.dump()).error().status, status) << status_name(status);
  }
}

TEST(ParseReply, RefusesWhatIsNotOne) {
  for (const char* line : {"", "{", "[]", "1", "{}", R"({"error":7})", R"({"error":{}})",
                           R"({"error":{"data":{"status":"ok"},"message":7}})"}) {
    const auto reply = parse_reply(line);
    ASSERT_FALSE(reply.has_value()) << line;
    EXPECT_EQ(reply.error().status, Status::io_error) << line;
  }
}

}  // namespace
}  // namespace uzram::control
