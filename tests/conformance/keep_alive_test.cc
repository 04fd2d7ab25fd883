// The Keep Alive timer is enforced: not before KATO, and not long after
// [spec §3.8].
#include "tests/conformance/conformance.h"

namespace sluice::conformance {
namespace {

constexpr uint32_t kKatoMs = 1000;
// Kernels look once in KATO, and take a step more.
constexpr absl::Duration kLatest = absl::Seconds(6);

class KeepAlive : public Conformance {
 protected:
  std::unique_ptr<RawController> WithKato(uint32_t kato_ms) {
    RawControllerOptions options;
    options.kato_ms = kato_ms;
    return Enabled(options);
  }
  // Sends nothing. How long the target took to end the connection.
  static absl::Duration UntilEnd(RawConnection* connection, absl::Time since) {
    EXPECT_TRUE(connection->WaitEnd(kLatest)) << "the timer is not enforced";
    return absl::Now() - since;
  }
};

TEST_F(KeepAlive, Expires) {
  const absl::Time connected = absl::Now();
  const auto controller = WithKato(kKatoMs);
  ASSERT_NE(controller, nullptr);
  EXPECT_GE(UntilEnd(&controller->admin().connection(), connected),
            absl::Milliseconds(kKatoMs));
}

TEST_F(KeepAlive, ExpiresBeforeEnable) {
  RawControllerOptions options;
  options.kato_ms = kKatoMs;
  const absl::Time connected = absl::Now();
  const auto controller = Connected(options);
  ASSERT_NE(controller, nullptr);
  EXPECT_GE(UntilEnd(&controller->admin().connection(), connected),
            absl::Milliseconds(kKatoMs));
}

TEST_F(KeepAlive, TakesTheIoQueuesAlong) {
  const auto controller = WithKato(kKatoMs);
  ASSERT_NE(controller, nullptr);
  const auto queue = NewQueue(controller.get(), 1, 16);
  ASSERT_NE(queue, nullptr);
  (void)UntilEnd(&controller->admin().connection(), absl::Now());
  EXPECT_TRUE(queue->connection().WaitEnd());
}

TEST_F(KeepAlive, KeptAlive) {
  const auto controller = WithKato(kKatoMs);
  ASSERT_NE(controller, nullptr);
  const absl::Time end = absl::Now() + absl::Seconds(4);
  while (absl::Now() < end) {
    ASSERT_EQ(Text(controller->KeepAlive()), "0x000");
    absl::SleepFor(absl::Milliseconds(kKatoMs / 4));
  }
  EXPECT_FALSE(controller->admin().connection().ended());
}

TEST_F(KeepAlive, OffWithZero) {
  const auto controller = WithKato(0);
  ASSERT_NE(controller, nullptr);
  absl::SleepFor(absl::Seconds(3));
  EXPECT_FALSE(controller->admin().connection().ended());
  EXPECT_TRUE(controller->IdentifyController().ok());
}

TEST_F(KeepAlive, ChangedByFeature) {
  const auto controller = WithKato(60000);
  ASSERT_NE(controller, nullptr);
  ASSERT_EQ(Text(controller->SetFeature(0x0F, kKatoMs)), "0x000");
  const absl::Time changed = absl::Now();
  EXPECT_GE(UntilEnd(&controller->admin().connection(), changed),
            absl::Milliseconds(kKatoMs - 100));
}

TEST_F(KeepAlive, NotEndedByShortSilence) {
  const auto controller = WithKato(30000);
  ASSERT_NE(controller, nullptr);
  absl::SleepFor(absl::Seconds(2));
  EXPECT_TRUE(controller->IdentifyController().ok());
}

}  // namespace
}  // namespace sluice::conformance
