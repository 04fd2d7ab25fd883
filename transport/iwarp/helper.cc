#include "transport/iwarp/helper.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/iwarp/poll_group.h"

namespace sluice::iwarp {
namespace {

// A group that somebody else has advanced meanwhile is left to them for as long
// again.
constexpr int kLeaveAloneMillis = 1;

class Helper {
 public:
  static Helper& Get() {
    static auto* helper = new Helper;
    return *helper;
  }

  void Add(const std::shared_ptr<PollGroup>& group) {
    {
      const std::lock_guard lock(mutex_);
      groups_.push_back({group, 0});
      if (!running_) {
        running_ = true;
        std::thread(&Helper::Main, this).detach();
      }
    }
    wake_.Wake();
  }

  void Tell() {
    if (!sleeping_.load(std::memory_order_seq_cst)) return;
    if (sleeping_.exchange(false)) wake_.Wake();
  }

 private:
  struct Entry {
    std::weak_ptr<PollGroup> group;
    uint32_t serial_seen;  // the group's, when it was last looked at
  };
  struct Picked {
    std::shared_ptr<PollGroup> group;
    uint32_t serial;
  };
  using Groups = std::vector<Picked>;

  void Main() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    pthread_setname_np(pthread_self(), "iwarp");
    while (true) Round();
  }

  // The groups that nobody else looks after. True when some may soon be.
  bool PickGroups(Groups* picked) {
    bool look_again = false;
    const std::lock_guard lock(mutex_);
    std::erase_if(groups_, [](const Entry& e) { return e.group.expired(); });
    for (Entry& entry : groups_) {
      std::shared_ptr<PollGroup> group = entry.group.lock();
      if (group == nullptr || group->is_waited_for()) continue;
      const uint32_t serial = group->user_serial();
      const bool busy = serial != entry.serial_seen;
      entry.serial_seen = serial;
      look_again |= busy;
      if (!busy) picked->push_back({std::move(group), serial});
    }
    return look_again;
  }

  void Round() {
    sleeping_.store(true, std::memory_order_seq_cst);
    Groups groups;
    const bool look_again = PickGroups(&groups);
    std::vector<pollfd> waits;
    waits.push_back({wake_.epoll_fd(), POLLIN, 0});
    for (const auto& [group, serial] : groups) {
      waits.push_back({group->epoll_fd(), POLLIN, 0});
      group->SendPosted();
    }
    if (look_again) sleeping_.store(false);
    poll(waits.data(), waits.size(), look_again ? kLeaveAloneMillis : -1);
    if ((waits[0].revents & POLLIN) != 0) wake_.Advance(nullptr);
    for (size_t i = 0; i < groups.size(); ++i) {
      if ((waits[i + 1].revents & POLLIN) == 0) continue;
      const auto& [group, serial] = groups[i];
      if (group->user_serial() != serial) continue;
      // One round each: what is left makes the next wait a short one.
      if (group->AdvanceAsHelper()) group->Wake();
    }
  }

  std::mutex mutex_;
  std::vector<Entry> groups_;
  bool running_ = false;
  std::atomic<bool> sleeping_{false};
  PollGroup wake_;  // without queue pairs: only to be woken by
};

}  // namespace

void HelpGroup(const std::shared_ptr<PollGroup>& group) {
  Helper::Get().Add(group);
}

void TellHelper() { Helper::Get().Tell(); }

}  // namespace sluice::iwarp
