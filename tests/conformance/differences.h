// Where a peer is known to differ from the specification, and why. A test
// asserts what the specification says unless a row here names the test, the
// check (`what`; empty: every check of the test) and the peer. A row's answer
// is accepted besides the specification's, not instead of it: kernels differ.
//
// kSpared as the answer leaves the whole test (`what` empty) or the one check
// out, because the peer would not survive it or has nothing to be tested.
#pragma once

#include "tests/conformance/peer.h"

namespace sluice::conformance {

struct Difference {
  const char* test;
  const char* what;
  Peer peer;
  const char* answer;
  const char* reason;
};

inline constexpr const char* kSpared = "spared";

inline constexpr Difference kDifferences[] = {
    // The request to the connection manager. nvmet_rdma_parse_cm_connect_req
    // looks at RECFMT and at an admin queue's HSQSIZE, at nothing else.
    {"ConnectRequest.LengthZero", "roce", Peer::kNvmet, "established",
     "padding makes it a request of zeroes, and HSQSIZE 0 is not refused"},
    {"ConnectRequest.Length4", "", Peer::kNvmet, "established",
     "any length but 0 is taken"},
    {"ConnectRequest.Length31", "", Peer::kNvmet, "established",
     "any length but 0 is taken"},
    {"ConnectRequest.QidTooLarge", "", Peer::kNvmet, "established",
     "QID is left to the Connect command"},
    {"ConnectRequest.HsqsizeZero", "", Peer::kNvmet, "established",
     "HSQSIZE 0 is left to the Connect command"},
    {"ConnectRequest.HsqsizeTooLarge", "io", Peer::kNvmet, "established",
     "HSQSIZE of an I/O queue is left to the Connect command"},
    {"ConnectRequest.HsqsizeTooLarge", "io FFFFh", Peer::kNvmet, kSpared,
     "an allocation of 65536 commands warns in the kernel's log"},
    {"ConnectRequest.HrqsizeZero", "", Peer::kNvmet, "established",
     "HRQSIZE is not looked at"},
    {"ConnectRequest.CntlidUnknown", "", Peer::kNvmet, "established",
     "CNTLID is left to the Connect command"},
    {"ConnectRequest.NoReadDepth", "", Peer::kNvmet, "established",
     "the read depth is not looked at; READs then fail"},

    // The Connect command.
    {"ConnectCommand.AdminQidOfAnotherQueue", "", Peer::kNvmet,
     "0x182|DNR at 16/data",
     "QID alone says which Connect it is; CNTLID FFFFh is then wrong"},
    {"ConnectCommand.AdminSqsize", "beyond the request", Peer::kNvmet, "0x000",
     "SQSIZE of an admin queue is not compared"},
    {"ConnectCommand.AdminSqsize", "FFFFh", Peer::kNvmet, "0x000",
     "SQSIZE of an admin queue is not compared"},
    {"ConnectCommand.LongData", "", Peer::kNvmet, "0x00F|DNR",
     "the SGL must be as long as the data"},
    {"ConnectCommand.Hostnqn", "", Peer::kNvmet, "0x000",
     "a subsystem with allow_any_host does not look at HOSTNQN"},
    {"ConnectCommand.SecondConnect", "", Peer::kNvmet, "0x001|DNR",
     "a connected queue knows no Connect"},
    {"ConnectCommand.FirstCommandIsNoConnect", "", Peer::kNvmet, "0x001|DNR",
     "a queue without a controller knows Connect alone"},
    {"ConnectCommand.FirstIoCommandIsNoConnect", "", Peer::kNvmet, "0x001|DNR",
     "a queue without a controller knows Connect alone"},
    {"ConnectCommand.IoOfAnotherHost", "HOSTID", Peer::kNvmet, "0x000",
     "nvmet_ctrl_find_get compares HOSTNQN, not HOSTID"},
    {"ConnectCommand.IoSqsize", "beyond the request", Peer::kNvmet, "0x000",
     "SQSIZE is compared with MQES only"},
    {"ConnectCommand.IoQidOfAnotherQueue", "admin", Peer::kNvmet,
     "0x182|DNR at 16/data",
     "QID 0 makes it an admin Connect, whose CNTLID is FFFFh"},
    {"ConnectCommand.IoQidOfAnotherQueue", "2", Peer::kNvmet, "0x000",
     "QID is not compared with the request's"},
    {"ConnectCommand.IoBeforeEnable", "", Peer::kNvmet, "0x000",
     "CC.EN is looked at for each command, not for Connect"},
    {"ConnectCommand.IoInCapsuleTooLong", "", Peer::kNvmet, "0x000",
     "the descriptor is compared with the buffer, not with what came"},

    // Depths. The connection is made; the Connect command is refused.
    {"Depth.1", "connection", Peer::kNvmet, "established",
     "HSQSIZE of an I/O queue is left to the Connect command"},
    {"Depth.1024", "connection", Peer::kNvmet, "established",
     "HSQSIZE of an I/O queue is left to the Connect command"},
    {"Depth.OneAboveTheLimit", "connection", Peer::kNvmet, "established",
     "HSQSIZE of an I/O queue is left to the Connect command"},

    // Properties.
    {"Property.EnableWithWrongSizes", "reset", Peer::kNvmet, "stays fatal",
     "nvmet_clear_ctrl leaves CSTS.CFS set"},
    {"Property.EnableWithWrongModes", "reset", Peer::kNvmet, "stays fatal",
     "nvmet_clear_ctrl leaves CSTS.CFS set"},

    // Identify and logs.
    {"Admin.IdentifyNamespace", "0", Peer::kNvmet, "0x000",
     "an NSID that is not there is answered with zeroes"},
    {"Admin.IdentifyNamespace", "beyond NN", Peer::kNvmet, "0x000",
     "an NSID that is not there is answered with zeroes"},
    {"Admin.IdentifyActiveNamespaces", "", Peer::kNvmet, "0x000",
     "6.1: an NSID above all others is answered with an empty list"},
    {"Admin.HostIdentifier", "set", Peer::kNvmet, "0x00F|DNR",
     "6.1: Set Features takes no data, and the SGL is looked at first"},
    {"Admin.IdentifyLengths", "long", Peer::kNvmet, "0x00F|DNR",
     "the SGL must be as long as the data"},
    {"Log.WrongOffsets", "", Peer::kNvmet, "0x000",
     "LPO is looked at for the discovery log alone"},
    {"Log.ShortBuffer", "4096", Peer::kNvmet, "0x00F|DNR",
     "the SGL must be as long as the data"},
    {"Log.SmallReadsOfSmart", "", Peer::kNvmet, "0x006",
     "the page is read whole or not at all"},

    // I/O commands.
    {"IoCommand.PastTheEnd", "", Peer::kNvmet, "0x006|DNR",
     "the range is left to the block layer, whose EIO is an internal error"},
    {"IoCommand.WriteZeroes", "", Peer::kNvmet, "0x006|DNR",
     "the range is left to the block layer, whose EIO is an internal error"},
    {"IoCommand.DatasetManagement", "", Peer::kNvmet, "0x006|DNR",
     "the range is left to the block layer, whose EIO is an internal error"},
    {"IoCommand.DatasetManagement", "past the end", Peer::kNvmet, "0x000",
     "6.1: brd cannot discard, and a discard that cannot be is a success"},
    {"IoCommand.DatasetManagement", "across the end", Peer::kNvmet, "0x000",
     "6.1: brd cannot discard, and a discard that cannot be is a success"},
    {"IoCommand.DatasetManagement", "overflow", Peer::kNvmet, "0x000",
     "6.1: brd cannot discard, and a discard that cannot be is a success"},
    {"IoCommand.LargestTransferAndOneBlockMore", "read more", Peer::kNvmet,
     "0x000", "MDTS is told and not enforced"},
    {"IoCommand.LargestTransferAndOneBlockMore", "write more", Peer::kNvmet,
     "0x000", "MDTS is told and not enforced"},

    // The end of an association.
    {"Vanish.TheAdminQueueTakesTheOthersAlong", "", Peer::kNvmet, "stays",
     "I/O queues live on without their admin queue, until the host leaves"},

    // SGLs.
    {"Sgl.KeyedLong", "", Peer::kNvmet, "0x00F|DNR",
     "the SGL must be as long as the data"},
    {"Sgl.InCapsuleBeyondWhatCame", "", Peer::kNvmet, "0x000",
     "the descriptor is compared with the buffer, not with what came"},
    {"Invalidate.OnErrorsTheRightKeyOrNone", "", Peer::kNvmet, "0x006|DNR",
     "the range is left to the block layer, whose EIO is an internal error"},
    {"Sgl.InCapsuleOffsetOverflow", "", Peer::kNvmet, kSpared,
     "nvmet_rdma_map_sgl_inline compares off + len, which wraps, and would "
     "then address kernel memory outside its page"},
};

}  // namespace sluice::conformance
