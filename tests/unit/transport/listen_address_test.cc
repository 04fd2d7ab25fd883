#include "transport/listen_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace sluice::transport {
namespace {

using ::testing::HasSubstr;

TEST(ListenAddress, Parses) {
  const struct {
    const char* text;
    int family;
    const char* shown;
    const char* host;
  } cases[] = {
      {"10.0.0.1", AF_INET, "10.0.0.1:4420", "10.0.0.1"},
      {"10.0.0.1:7", AF_INET, "10.0.0.1:7", "10.0.0.1"},
      {"0.0.0.0:0", AF_INET, "0.0.0.0:0", "0.0.0.0"},
      {":8009", AF_INET, "0.0.0.0:8009", "0.0.0.0"},
      {"127.0.0.1:65535", AF_INET, "127.0.0.1:65535", "127.0.0.1"},
      {"::1", AF_INET6, "[::1]:4420", "::1"},
      {"[::]", AF_INET6, "[::]:4420", "::"},
      {"[::1]:7", AF_INET6, "[::1]:7", "::1"},
      {"[2001:db8::0:1]:4420", AF_INET6, "[2001:db8::1]:4420", "2001:db8::1"},
      {"[fe80::1%lo]:7", AF_INET6, "[fe80::1%lo]:7", "fe80::1"},
      {"fe80::1%lo", AF_INET6, "[fe80::1%lo]:4420", "fe80::1"},
  };

  for (const auto& entry : cases) {
    SCOPED_TRACE(entry.text);
    const auto address = ParseListenAddress(entry.text, 4420);
    ASSERT_THAT(address, IsOk());
    EXPECT_EQ(address->address.ss_family, entry.family);
    EXPECT_EQ(address->ToString(), entry.shown);
    EXPECT_EQ(AddressText(address->address), entry.host);
  }
}

TEST(ListenAddress, ZoneBecomesAScope) {
  const auto address = ParseListenAddress("[fe80::1%lo]:7", 4420);

  ASSERT_THAT(address, IsOk());
  EXPECT_EQ(address->interface_zone, "lo");
  EXPECT_NE(
      reinterpret_cast<const sockaddr_in6*>(&address->address)->sin6_scope_id,
      0U);
}

TEST(ListenAddress, ShownTextParsesToTheSame) {
  for (const char* text : {"10.1.2.3:9", "[2001:db8::7]:9", "[fe80::2%lo]:9"}) {
    const auto address = ParseListenAddress(text, 4420);
    ASSERT_THAT(address, IsOk());
    const auto again = ParseListenAddress(address->ToString(), 1);
    ASSERT_THAT(again, IsOk());
    EXPECT_EQ(again->ToString(), text);
  }
}

TEST(ListenAddress, Refuses) {
  const struct {
    const char* text;
    const char* why;
  } cases[] = {
      {"host.example", "not an IPv4"},
      {"10.0.0", "not an IPv4"},
      {"10.0.0.256", "not an IPv4"},
      {"10.0.0.1:", "malformed"},
      {"10.0.0.1:x", "the port"},
      {"10.0.0.1:-1", "the port"},
      {"10.0.0.1:65536", "the port"},
      {"10.0.0.1%lo", "not an IPv4"},
      {"[::1", "malformed"},
      {"[::1]7", "malformed"},
      {"[::1]:", "malformed"},
      {"[::1]:99999", "the port"},
      {"[::g]:1", "not an IPv4"},
      {"[fe80::1%nosuch0]:1", "no such interface"},
      {"[fe80::1%]:1", "no such interface"},
      {"[fe80::1%lo%lo]:1", "not an IPv4"},
  };

  for (const auto& entry : cases) {
    SCOPED_TRACE(entry.text);
    EXPECT_THAT(
        ParseListenAddress(entry.text, 4420),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(entry.why)));
  }
}

TEST(ListenAddress, PortCanBeSet) {
  for (const char* text : {"127.0.0.1:0", "[::1]:0"}) {
    auto address = ParseListenAddress(text, 1);
    ASSERT_THAT(address, IsOk());
    address->set_port(4421);
    EXPECT_EQ(address->port(), 4421);
  }
}

}  // namespace
}  // namespace sluice::transport
