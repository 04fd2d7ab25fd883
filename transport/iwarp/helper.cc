#include "transport/iwarp/helper.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <vector>

#include "core/check.h"
#include "transport/iwarp/poll_group.h"

namespace sluice::iwarp {
namespace {

// A group that somebody else has advanced in the last while is left to them
// for as long.
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
    list_.Wake();
  }

 private:
  struct Entry {
    std::weak_ptr<PollGroup> group;
    uint32_t serial_seen;  // the group's, when it was last looked at
  };

  void Main() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    pthread_setname_np(pthread_self(), "iwarp");
    while (true) Round();
  }

  // Waits until a group is readable that nobody else looks after.
  void Round() {
    std::vector<std::shared_ptr<PollGroup>> groups;
    std::vector<pollfd> waits;
    waits.push_back({list_.epoll_fd(), POLLIN, 0});
    bool some_left_alone = false;
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(groups_, [](const Entry& e) { return e.group.expired(); });
      for (Entry& entry : groups_) {
        std::shared_ptr<PollGroup> group = entry.group.lock();
        if (group == nullptr) continue;
        const uint32_t serial = group->user_serial();
        const bool busy = serial != entry.serial_seen || group->is_waited_for();
        entry.serial_seen = serial;
        if (busy) {
          some_left_alone = true;
          continue;
        }
        waits.push_back({group->epoll_fd(), POLLIN, 0});
        groups.push_back(std::move(group));
      }
    }
    poll(waits.data(), waits.size(), some_left_alone ? kLeaveAloneMillis : -1);
    if ((waits[0].revents & POLLIN) != 0) list_.Advance(nullptr);
    for (size_t i = 0; i < groups.size(); ++i) {
      if ((waits[i + 1].revents & POLLIN) == 0 && !groups[i]->has_posted()) {
        continue;
      }
      while (groups[i]->AdvanceAsHelper()) {
      }
    }
  }

  std::mutex mutex_;
  std::vector<Entry> groups_;
  bool running_ = false;
  PollGroup list_;  // only to be woken by
};

}  // namespace

void HelpGroup(const std::shared_ptr<PollGroup>& group) {
  Helper::Get().Add(group);
}

}  // namespace sluice::iwarp
