// An NVMe queue of this target: a submission and completion queue on one queue
// pair. Serves each command as one coroutine that reads top to bottom.
//
// Owned by its shard, lives on its reactor. Bound: the queue pair's 2d command
// contexts.
#pragma once

#include <memory>

#include "core/task.h"
#include "nvme/connect.h"
#include "target/controller.h"
#include "target/request.h"
#include "transport/queue_pair.h"
#include "transport/shard.h"

namespace sluice::target {

class Queue final : public transport::CapsuleHandler {
 public:
  Queue(TargetShard* shard, uint64_t serial,
        std::unique_ptr<transport::QueuePair> qp,
        const transport::Ticket& ticket);
  ~Queue() override;

  // transport::CapsuleHandler.
  void OnCommand(transport::CommandContext* command) override;
  void OnDown(const char* why) override;

  // Ends the connection; the shard destroys the queue when all is quiet.
  void Disconnect(const char* why) { qp_->Disconnect(why); }
  // New commands are left unanswered from now on: the host sends them again on
  // its next connection.
  void Quiesce();
  // Commands being served, parked event requests apart.
  size_t busy() const;
  // After OnDown: waits for the device and the commands, and lets go of the
  // controller. The queue can be deleted then.
  Task<void> Close();

  const ControllerCounters& counters() const { return counters_; }
  uint64_t serial() const { return serial_; }
  uint16_t qid() const { return qid_; }
  bool connected() const { return subsystem_ != nullptr; }
  Controller* controller() const { return controller_.get(); }
  TargetShard* shard() const { return shard_; }
  uint16_t cntlid() const { return cntlid_; }
  transport::QueuePair* qp() { return qp_.get(); }
  const transport::QueuePair& qp() const { return *qp_; }

 private:
  // queue.cc: the frame of every command.
  Task<void> Serve(transport::CommandContext* command);
  nvme::Status Decode(Request* request);
  uint32_t DataBytes(const Request& request, nvme::Status* status) const;
  uint32_t IoDataBytes(const Request& request, nvme::Status* status) const;
  Task<void> SettleSilent();
  Task<nvme::Status> TakeData(Request* request);
  bool UsesMemory(Request* request) const;
  Task<nvme::Status> Execute(Request* request);
  Task<void> Reply(Request* request, nvme::Status status);
  void NoteError(const Request& request, nvme::Status* status);

  // connect.cc
  Task<nvme::Status> Connect(Request* request);
  Task<nvme::ConnectOutcome> ConnectAdmin(nvme::ConnectCommand command,
                                          const nvme::ConnectData* data);
  Task<nvme::ConnectOutcome> ConnectIo(nvme::ConnectCommand command,
                                       const nvme::ConnectData* data);
  nvme::Status ExecuteFabrics(Request* request);

  // io.cc
  Task<nvme::Status> ExecuteIo(Request* request);
  Task<nvme::Status> Read(Request* request, blockdev::BlockDevice* device);
  Task<nvme::Status> Write(Request* request, blockdev::BlockDevice* device);
  Task<nvme::Status> Compare(Request* request, blockdev::BlockDevice* device);
  Task<nvme::Status> WriteZeroes(Request* request,
                                 blockdev::BlockDevice* device);
  Task<nvme::Status> DatasetManagement(Request* request,
                                       blockdev::BlockDevice* device);
  Task<nvme::Status> Flush(Request* request);

  TargetShard* const shard_;
  const uint64_t serial_;
  std::unique_ptr<transport::QueuePair> qp_;
  const uint16_t qid_;      // of the CM request
  const uint16_t hsqsize_;  // of the CM request, 0's based
  const sockaddr_storage local_;
  const sockaddr_storage peer_;
  uint32_t depth_ = 2;  // for SQHD
  bool flow_control_ = true;
  uint16_t sqhd_ = 0;
  bool quiescing_ = false;
  bool down_ = false;
  bool connecting_ = false;  // a Connect is under way

  // After Connect:
  const Subsystem* subsystem_ = nullptr;
  const std::vector<std::unique_ptr<blockdev::BlockDevice>>* devices_ = nullptr;
  std::unique_ptr<Controller> controller_;  // admin queues only
  uint16_t cntlid_ = 0;
  TargetShard* controller_home_ = nullptr;  // I/O queues
  ControllerCounters counters_;
  Scope scope_;
};

}  // namespace sluice::target
