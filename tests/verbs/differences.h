// Where a device is known to differ from what verbs and rdma_cm promise, and
// why. A test asserts the promise unless a row here names the test, the check
// (`what`; empty: every check of the test) and the device. A row's answer is
// accepted besides the right one, not instead of it: kernels differ.
//
// The rows are of Linux 6.12 and rdma-core 44; 6.1 differs more and is not run.
//
// A test is Suite.Name, or Suite.* for all of a suite.
//
// kSpared as the answer leaves the whole test (`what` empty) or the one check
// out, because the device would not survive it or has nothing to be tested.
#pragma once

#include "tests/verbs/device_kind.h"

namespace sluice::verbs {

struct Difference {
  const char* test;
  const char* what;
  DeviceKind device;
  const char* answer;
  const char* reason;
};

inline constexpr const char* kSpared = "spared";

inline constexpr Difference kDifferences[] = {
    // --- siw ---

    // A Terminate is logged and closes the connection (siw_proc_terminate); no
    // work request is told of it.
    {"Access.*", "READ", DeviceKind::kSiw, "WR_FLUSH_ERR",
     "a Terminate is not mapped to the READ that caused it"},
    {"Invalidate.*", "READ", DeviceKind::kSiw, "WR_FLUSH_ERR",
     "a Terminate is not mapped to the READ that caused it"},
    {"Access.*", "WRITE", DeviceKind::kSiw, "LOC_QP_OP_ERR",
     "on loopback the refusal may close the socket under siw_qp_sq_process"},
    {"Invalidate.*", "WRITE", DeviceKind::kSiw, "LOC_QP_OP_ERR",
     "on loopback the refusal may close the socket under siw_qp_sq_process"},
    {"Access.*", "READ responder", DeviceKind::kSiw, kSpared,
     "siw_qp_cm_drop closes the connection and leaves the queue pair as it is, "
     "until rdma_disconnect"},
    {"Invalidate.*", "READ responder", DeviceKind::kSiw, kSpared,
     "siw_qp_cm_drop closes the connection and leaves the queue pair as it is, "
     "until rdma_disconnect"},
    {"Access.RemoteRightsAreTheRegions", "READ without the right",
     DeviceKind::kSiw, kSpared,
     "siw_tx_hdt checks the source of an answer without any right"},
    {"Access.RemoteRightsAreTheQueuePairs", "", DeviceKind::kSiw, kSpared,
     "siw_qp_modify_nonstate stores a queue pair's rights, and nobody looks at "
     "them"},
    {"Access.*", "event", DeviceKind::kSiw, kSpared,
     "siw_proc_write has no event for a key that is none"},
    {"Invalidate.*", "event", DeviceKind::kSiw, kSpared,
     "siw_proc_write has no event for a key that is none"},

    // siw_qp_sq_process has one status for all of them.
    {"Access.BadLocalMemory", "status", DeviceKind::kSiw, "LOC_QP_OP_ERR",
     "whatever fails on sending is that"},
    {"Access.BadSecondPiece", "status", DeviceKind::kSiw, "LOC_QP_OP_ERR",
     "whatever fails on sending is that"},
    {"Access.ReadSinkMustBeWritable", "status", DeviceKind::kSiw,
     "LOC_QP_OP_ERR", "whatever fails on sending is that"},
    {"Invalidate.RemoteEndsAllAccess", "local", DeviceKind::kSiw,
     "LOC_QP_OP_ERR", "whatever fails on sending is that"},
    {"Invalidate.RemoteTellsTheKey", "key", DeviceKind::kSiw, kSpared,
     "siw_rqe_complete tells it to the kernel's own users only"},
    {"Invalidate.Local*", "post", DeviceKind::kSiw, "EINVAL",
     "libsiw knows no LOCAL_INV"},

    {"Access.*", "state", DeviceKind::kSiw, kSpared,
     "siw_qp_cm_drop closes the connection and leaves the queue pair as it is, "
     "until rdma_disconnect"},
    {"Busy.DeregisteredMemory*", "", DeviceKind::kSiw, kSpared,
     "siw_mr_drop_mem does not wait for a segment that is just being placed: "
     "seen once in some ten runs"},
    {"Busy.*", "flush", DeviceKind::kSiw, kSpared,
     "siw_qp_cm_drop closes the connection and leaves the queue pair as it is, "
     "until rdma_disconnect"},
    {"Access.BadReceives", "statuses", DeviceKind::kSiw,
     "status 21 WR_FLUSH_ERR",
     "siw_rdmap_complete makes a GENERAL_ERR of what siw_proc_send refuses"},
    {"Invalidate.KeysThatAreNone", "peer", DeviceKind::kSiw, kSpared,
     "siw_rdmap_complete returns the success of the completion: the connection "
     "goes on"},

    // libsiw and what it does not ask the kernel.
    {"State.InitAfterCreation", "post_send", DeviceKind::kSiw, "EPERM",
     "siw_db is -1 whatever the kernel says"},
    {"State.RtrAndRtsDoNotConnect", "post_send", DeviceKind::kSiw, "EPERM",
     "siw_db is -1 whatever the kernel says"},
    {"Flush.BehindAFailedRead", "", DeviceKind::kSiw, kSpared,
     "siw_db is -1 as soon as the connection is lost, and nothing is posted"},
    {"Chain.EndsAtABadOne", "opcode", DeviceKind::kSiw, kSpared,
     "siw_post_send forgets the error over the doorbell for those before it"},
    {"Chain.EndsAtABadOne", "pieces", DeviceKind::kSiw, kSpared,
     "siw_post_send forgets the error over the doorbell for those before it"},
    {"Chain.EndsAtABadOne", "inline", DeviceKind::kSiw, kSpared,
     "siw_post_send forgets the error over the doorbell for those before it"},
    {"Chain.EndsWhereTheQueueIsFull", "", DeviceKind::kSiw, kSpared,
     "siw_post_send forgets the error over the doorbell for those before it"},
    {"Chain.OfReceives", "", DeviceKind::kSiw, kSpared,
     "push_recv_wqe looks at the device's limit, not at the queue's"},
    {"Srq.TooManyPiecesAreRefused", "", DeviceKind::kSiw, kSpared,
     "push_recv_wqe looks at the device's limit, not at the queue's"},
    {"Transfer.NothingIsTransferredToo", "no piece", DeviceKind::kSiw, kSpared,
     "push_recv_wqe refuses a receive without a piece"},
    {"Transfer.TooMuchInlineIsRefused", "post", DeviceKind::kSiw, "0",
     "push_send_wqe looks at the device's limit, not at the queue's"},
    {"Srq.*", "query", DeviceKind::kSiw, "EOPNOTSUPP",
     "libsiw has no query_srq"},
    {"Srq.QueuePairHasNoReceivesOfItsOwn", "", DeviceKind::kSiw, kSpared,
     "siw_post_recv divides by the size of a queue that is not there"},
    {"InUse.PdCqAndChannelWithAQueuePair", "CQs", DeviceKind::kSiw, kSpared,
     "siw_destroy_cq unmaps the CQ before it asks whether it may"},
    {"Notify.ArmingForLessTakesNothingBack", "all, then solicited",
     DeviceKind::kSiw, kSpared, "siw_notify_cq overwrites what was asked for"},

    {"Flush.DestroyTakesItsCompletionsAlong", "left", DeviceKind::kSiw, "some",
     "siw_destroy_qp leaves them in the CQ"},
    {"SendQueue.IsFullAtItsDepth", "full", DeviceKind::kSiw, kSpared,
     "a READ leaves the send queue when it is sent, for the ORQ"},
    {"ReadDepth.NoneIsAnError", "", DeviceKind::kSiw, kSpared,
     "siw_activate_tx_from_sq refuses it and leaves it at the queue's head"},
    {"ReadDepth.OfTheRequestAsTheOtherSideSeesIt", "ird", DeviceKind::kSiw, "6",
     "siw_proc_mpareply reports back what the peer has declared"},
    {"ReadDepth.OfTheRequestAsTheOtherSideSeesIt", "ord", DeviceKind::kSiw, "9",
     "siw_proc_mpareply reports back what the peer has declared"},
    {"Srq.FailureLeavesItsReceives", "last WQE", DeviceKind::kSiw, kSpared,
     "siw does not raise LAST_WQE_REACHED"},
    {"State.ErrToResetToInit", "", DeviceKind::kSiw, kSpared,
     "siw_qp_modify knows no way out of ERROR"},
    {"State.InitIsRefusedWhenConnected", "modify", DeviceKind::kSiw, "0",
     "siw_qp_nextstate_from_rts ignores it"},
    {"State.InitIsRefusedWhenConnected", "modify", DeviceKind::kIwarp, "0",
     "as siw: the connection manager has made it ready, and users of "
     "rdma_init_qp_attr ask afterwards (rping -q)"},
    {"State.DisconnectLeadsToErr", "", DeviceKind::kSiw, kSpared,
     "a queue pair that has closed in order is IDLE again"},
    {"State.SqdClosesGracefully", "state", DeviceKind::kSiw, kSpared,
     "a queue pair that has closed in order is IDLE again"},
    {"State.PostsAfterAnErrorAreFlushed", "", DeviceKind::kSiw, kSpared,
     "libsiw writes to queues that the kernel has flushed and does not look at "
     "any more"},
    {"Notify.SolicitedOnly", "solicited", DeviceKind::kSiw, kSpared,
     "siw_rqe_complete says SIGNALLED to siw_cq_notify_now, never SOLICITED"},
    {"Notify.SolicitedWithInvalidation", "", DeviceKind::kSiw, kSpared,
     "siw_rqe_complete says SIGNALLED to siw_cq_notify_now, never SOLICITED"},
    {"Notify.SolicitedOnlyAndAnError", "", DeviceKind::kSiw, kSpared,
     "siw_rqe_complete says SIGNALLED to siw_cq_notify_now, never SOLICITED"},
    {"CqOverflow.*", "queue pair", DeviceKind::kSiw, kSpared,
     "siw_sqe_complete raises CQ_ERR and loses the completion"},
    {"Order.NothingCompletesBeforeAReadInFrontOfIt", "order", DeviceKind::kSiw,
     "another", "SENDs complete when they are sent, READs when answered"},
    {"ReadDepth.*", "order", DeviceKind::kSiw, "another",
     "SENDs complete when they are sent, READs when answered"},
    {"Connect.TooMuchPrivateDataIsRefused", "connect", DeviceKind::kSiw,
     kSpared, "siw_send_mpareqrep adds its 4 bytes in 8 bits, which wrap"},
    {"Connect.TooMuchPrivateDataIsRefused", "accept", DeviceKind::kSiw, kSpared,
     "siw_send_mpareqrep adds its 4 bytes in 8 bits, which wrap"},
    {"Connect.BacklogIsALimit", "", DeviceKind::kSiw, kSpared,
     "siw_destroy_listen puts the endpoint of a request that was dropped once "
     "too often: the kernel warns of a reference count"},
    {"Connect.AcceptAndRejectWantARequest", "afterwards", DeviceKind::kSiw,
     kSpared, "rdma_accept that fails takes the queue pair to its error state"},
    {"Connect.ToAClosedPort", "connect", DeviceKind::kSiw, "ECONNREFUSED",
     "siw_connect connects TCP before it returns"},

    {"Transfer.EmptyPiecesAreNothing", "", DeviceKind::kSiw, kSpared,
     "siw_tx_hdt dereferences the region of an empty first piece, which nobody "
     "has looked up: the kernel oopses"},

    // --- rxe ---

    {"Access.*", "event", DeviceKind::kRxe, kSpared,
     "do_class_ac_error raises no event"},
    {"Invalidate.*", "event", DeviceKind::kRxe, kSpared,
     "do_class_ac_error raises no event"},

    {"Access.RemoteRightsAreTheQueuePairs", "WRITE", DeviceKind::kRxe,
     "REM_INV_REQ_ERR",
     "check_qp_attr_access calls it an operation that is not supported"},
    {"Access.RemoteRightsAreTheQueuePairs", "READ", DeviceKind::kRxe,
     "REM_INV_REQ_ERR",
     "check_qp_attr_access calls it an operation that is not supported"},
    {"Access.Bad*", "status", DeviceKind::kRxe, "WR_FLUSH_ERR",
     "rxe_requester moves the queue pair to the error state, and the completer "
     "flushes before it has told the status"},
    {"Access.ReadSinkMustBeWritable", "status", DeviceKind::kRxe,
     "WR_FLUSH_ERR",
     "rxe_requester moves the queue pair to the error state, and the completer "
     "flushes before it has told the status"},
    {"Access.BadReceives", "statuses", DeviceKind::kRxe,
     "LOC_QP_OP_ERR WR_FLUSH_ERR",
     "RESPST_ERR_MALFORMED_WQE is that, whatever is wrong with a receive"},
    {"Access.SendLongerThanItsReceive", "statuses", DeviceKind::kRxe,
     "LOC_QP_OP_ERR WR_FLUSH_ERR",
     "RESPST_ERR_MALFORMED_WQE is that, whatever is wrong with a receive"},
    {"Invalidate.Remote*", "", DeviceKind::kRxe, kSpared,
     "rxe_invalidate_mr wants a region of a fast registration, which "
     "ibv_reg_mr "
     "does not make"},
    {"Invalidate.Local*", "region", DeviceKind::kRxe, kSpared,
     "rxe_invalidate_mr wants a region of a fast registration, which "
     "ibv_reg_mr "
     "does not make"},
    {"Invalidate.KeysThatAreNone", "peer", DeviceKind::kRxe, kSpared,
     "the SEND is acknowledged before its key is looked at"},

    {"Flush.DestroyTakesItsCompletionsAlong", "left", DeviceKind::kRxe, "some",
     "rxe_destroy_qp leaves them in the CQ"},
    {"CqOverflow.*", "queue pair", DeviceKind::kRxe, kSpared,
     "rxe_cq_post raises CQ_ERR and loses the completion"},
    {"Notify.SolicitedOnlyAndAnError", "", DeviceKind::kRxe, kSpared,
     "flush_recv_wqe calls its completions not solicited"},
    {"Flush.ReceivesWhenThePeersQueuePairGoes", "", DeviceKind::kRxe, kSpared,
     "InfiniBand has no stream whose end a queue pair could see"},
    {"State.DisconnectLeadsToErr", "receive", DeviceKind::kRxe, kSpared,
     "librxe posts receives without a word to the kernel, which flushes them "
     "with the next SEND"},
    {"State.ErrEndsTheConnectionForBoth", "peer", DeviceKind::kRxe, kSpared,
     "InfiniBand has no stream whose end a queue pair could see"},
    {"Flush.InTheMiddleOfTraffic", "peer", DeviceKind::kRxe, kSpared,
     "InfiniBand has no stream whose end a queue pair could see"},
    {"ReadDepth.NoneIsAnError", "completion", DeviceKind::kRxe, kSpared,
     "rxe_requester waits until one of none is done"},
    {"Connect.BacklogIsALimit", "", DeviceKind::kRxe, kSpared,
     "a request that is dropped is sent again, for a minute"},
    {"Connect.QueuePairGoesWhileConnecting", "event", DeviceKind::kRxe,
     "RDMA_CM_EVENT_CONNECT_RESPONSE",
     "an id without a queue pair is a program's that has its own"},
    {"Connect.TooMuchPrivateDataIsRefused", "accept once more",
     DeviceKind::kRxe, kSpared,
     "rdma_accept that fails rejects the request, on InfiniBand"},
};

}  // namespace sluice::verbs
