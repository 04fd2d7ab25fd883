#include "core/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <thread>
#include <vector>

namespace sluice {
namespace {

struct Note : Message {
  static void Run(Message* message) {
    auto* note = static_cast<Note*>(message);
    note->log->push_back(note->value);
    if (note->again != nullptr) note->again->Push(note);
    note->again = nullptr;
  }

  Note() { run = &Run; }

  std::vector<int>* log = nullptr;
  int value = 0;
  Inbox* again = nullptr;  // pushed there once more
};

std::vector<Note> MakeNotes(int count, std::vector<int>* log) {
  std::vector<Note> notes(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    notes[static_cast<size_t>(i)].log = log;
    notes[static_cast<size_t>(i)].value = i;
  }
  return notes;
}

TEST(Inbox, RunsOldestFirst) {
  std::vector<int> log;
  std::vector<Note> notes = MakeNotes(3, &log);
  Inbox inbox;
  for (Note& note : notes) inbox.Push(&note);

  EXPECT_EQ(inbox.Run(INT_MAX), 3);

  EXPECT_EQ(log, (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(inbox.empty());
}

TEST(Inbox, KeepsOrderAcrossTheLimit) {
  std::vector<int> log;
  std::vector<Note> notes = MakeNotes(5, &log);
  Inbox inbox;
  for (int i = 0; i < 3; ++i) inbox.Push(&notes[static_cast<size_t>(i)]);
  EXPECT_EQ(inbox.Run(2), 2);
  EXPECT_FALSE(inbox.empty());
  inbox.Push(&notes[3]);
  inbox.Push(&notes[4]);

  while (!inbox.empty()) EXPECT_GT(inbox.Run(2), 0);

  EXPECT_EQ(log, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(Inbox, WhatAMessagePushesRunsInTheNextCall) {
  std::vector<int> log;
  std::vector<Note> notes = MakeNotes(1, &log);
  Inbox inbox;
  notes[0].again = &inbox;
  inbox.Push(&notes[0]);

  EXPECT_EQ(inbox.Run(INT_MAX), 1);
  EXPECT_FALSE(inbox.empty());
  EXPECT_EQ(inbox.Run(INT_MAX), 1);

  EXPECT_TRUE(inbox.empty());
}

TEST(Inbox, ManySendersKeepTheirOrder) {
  constexpr int kSenders = 3;
  constexpr int kEach = 20'000;
  Inbox inbox;
  std::vector<std::vector<int>> logs(kSenders);
  std::vector<std::vector<Note>> notes;
  for (auto& log : logs) notes.push_back(MakeNotes(kEach, &log));
  std::vector<std::thread> senders;
  for (auto& own : notes) {
    senders.emplace_back([&own, &inbox] {
      for (Note& note : own) inbox.Push(&note);
    });
  }

  int ran = 0;
  while (ran < kSenders * kEach) ran += inbox.Run(100);
  for (std::thread& sender : senders) sender.join();

  for (const auto& log : logs) {
    ASSERT_EQ(log.size(), static_cast<size_t>(kEach));
    EXPECT_TRUE(std::is_sorted(log.begin(), log.end()));
  }
}

}  // namespace
}  // namespace sluice
