// Ids that wait for their own events, and what librdmacm builds on them:
// endpoints, requests, addresses by name [iwarp §5.3, §6.1].
#include <netdb.h>

#include <cerrno>
#include <cstring>

#include "transport/iwarp/calls.h"
#include "transport/iwarp/cm.h"

namespace sluice::iwarp {
namespace {

constexpr int kResolveMillis = 2000;

void Forget(rdma_cm_id* id) {
  if (id->event != nullptr) AckCmEvent(id->event);
  id->event = nullptr;
}

sockaddr* Copy(const sockaddr* address, socklen_t bytes) {
  auto* copy = new sockaddr_storage{};
  std::memcpy(copy, address, bytes);
  return reinterpret_cast<sockaddr*>(copy);
}

void FreeCopy(sockaddr* address) {
  delete reinterpret_cast<sockaddr_storage*>(address);
}

}  // namespace

int Complete(rdma_cm_id* id) {
  if (!Id::From(id)->synchronous) return 0;
  Forget(id);
  if (GetCmEvent(id->channel, &id->event) != 0) return -1;
  const rdma_cm_event& event = *id->event;
  if (event.status == 0) return 0;
  errno = event.event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED
                                                : std::abs(event.status);
  return -1;
}

int GetRequest(rdma_cm_id* listener, rdma_cm_id** id) {
  if (!Id::From(listener)->synchronous) {
    errno = EINVAL;
    return -1;
  }
  Forget(listener);
  rdma_cm_event* event = nullptr;
  if (GetCmEvent(listener->channel, &event) != 0) return -1;
  if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    AckCmEvent(event);
    errno = EINVAL;
    return -1;
  }
  // Its events are its own from here on; that of the request is the listener's.
  rdma_cm_id* made = event->id;
  int result = MigrateId(made, nullptr);
  const ibv_qp_init_attr* wanted = Id::From(listener)->qp_attr.get();
  if (result == 0 && wanted != nullptr) {
    ibv_qp_init_attr attr = *wanted;
    result = CmCreateQp(made, listener->pd, &attr);
  }
  if (result != 0) {
    const int error = errno;
    AckCmEvent(event);
    DestroyId(made);
    errno = error;
    return -1;
  }
  made->event = event;
  *id = made;
  return 0;
}

int CreateEp(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd,
             ibv_qp_init_attr* attr) {
  rdma_cm_id* made = nullptr;
  if (CreateId(nullptr, &made, nullptr, RDMA_PS_TCP) != 0) return -1;
  if (attr != nullptr) attr->qp_type = IBV_QPT_RC;
  int result;
  if ((info->ai_flags & RAI_PASSIVE) != 0) {
    result = BindAddr(made, info->ai_src_addr);
    made->pd = pd;
    if (attr != nullptr) {
      Id::From(made)->qp_attr = std::make_unique<ibv_qp_init_attr>(*attr);
    }
  } else {
    result =
        ResolveAddr(made, info->ai_src_addr, info->ai_dst_addr, kResolveMillis);
    if (result == 0) result = ResolveRoute(made, kResolveMillis);
    if (result == 0 && attr != nullptr) result = CmCreateQp(made, pd, attr);
  }
  if (result == 0) {
    *id = made;
    return 0;
  }
  const int error = errno;
  DestroyId(made);
  errno = error;
  return -1;
}

void DestroyEp(rdma_cm_id* id) {
  if (id->qp != nullptr) CmDestroyQp(id);
  if (id->srq != nullptr) DestroySrq(id->srq);
  DestroyId(id);
}

int GetAddrInfo(const char* node, const char* service,
                const rdma_addrinfo* hints, rdma_addrinfo** info) {
  const bool passive = hints != nullptr && (hints->ai_flags & RAI_PASSIVE) != 0;
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  if (passive) wanted.ai_flags |= AI_PASSIVE;
  if (hints != nullptr) {
    if ((hints->ai_flags & RAI_NUMERICHOST) != 0) {
      wanted.ai_flags |= AI_NUMERICHOST;
    }
    wanted.ai_family = hints->ai_family;
  }
  addrinfo* found = nullptr;
  const int error = getaddrinfo(node, service, &wanted, &found);
  if (error != 0) {
    errno = error == EAI_SYSTEM ? errno : ENODATA;
    return error;
  }
  auto* made = new rdma_addrinfo{};
  made->ai_flags = hints == nullptr ? 0 : hints->ai_flags;
  made->ai_family = found->ai_family;
  made->ai_qp_type = IBV_QPT_RC;
  made->ai_port_space = RDMA_PS_TCP;
  sockaddr* address = Copy(found->ai_addr, found->ai_addrlen);
  if (passive) {
    made->ai_src_addr = address;
    made->ai_src_len = found->ai_addrlen;
  } else {
    made->ai_dst_addr = address;
    made->ai_dst_len = found->ai_addrlen;
    if (hints != nullptr && hints->ai_src_len > 0) {
      made->ai_src_addr = Copy(hints->ai_src_addr, hints->ai_src_len);
      made->ai_src_len = hints->ai_src_len;
    }
  }
  freeaddrinfo(found);
  *info = made;
  return 0;
}

void FreeAddrInfo(rdma_addrinfo* info) {
  while (info != nullptr) {
    rdma_addrinfo* next = info->ai_next;
    FreeCopy(info->ai_src_addr);
    FreeCopy(info->ai_dst_addr);
    delete info;
    info = next;
  }
}

int InitQpAttr(rdma_cm_id* /*id*/, ibv_qp_attr* attr, int* attr_mask) {
  switch (attr->qp_state) {
    case IBV_QPS_INIT:
    case IBV_QPS_RTR:
      attr->qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ;
      attr->port_num = 1;
      *attr_mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT;
      return 0;
    case IBV_QPS_RTS:
      *attr_mask = IBV_QP_STATE;
      return 0;
    default:
      errno = EINVAL;
      return -1;
  }
}

}  // namespace sluice::iwarp
