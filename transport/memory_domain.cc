#include "transport/memory_domain.h"

#include <algorithm>
#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace sluice::transport {

absl::StatusOr<std::unique_ptr<MemoryDomain>> MemoryDomain::Create(
    const VerbsApi& api, ibv_context* context, const DeviceTraits& traits,
    ExtentPool* extents) {
  VerbsPtr<ibv_pd> pd(api.alloc_pd(context), VerbsDeleter{&api});
  if (pd == nullptr) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("ibv_alloc_pd ", traits.name));
  }
  std::unique_ptr<MemoryDomain> domain(
      new MemoryDomain(api, std::move(pd), extents));
  int access = IBV_ACCESS_LOCAL_WRITE;
  if (traits.private_read_sinks) access |= IBV_ACCESS_REMOTE_WRITE;
  SLUICE_ASSIGN_OR_RETURN(
      domain->data_mr_,
      domain->Register(extents->data(), extents->total_bytes(), access));
  return domain;
}

absl::StatusOr<VerbsPtr<ibv_mr>> MemoryDomain::Register(std::byte* data,
                                                        size_t bytes,
                                                        int access) {
  VerbsPtr<ibv_mr> mr(api_.reg_mr(pd_.get(), data, bytes, access),
                      VerbsDeleter{&api_});
  if (mr != nullptr) return mr;
  const int error = errno;
  return absl::ErrnoToStatus(
      error, absl::StrCat("ibv_reg_mr bytes=", bytes,
                          error == ENOMEM ? " (locked-memory limit: raise it "
                                            "with ulimit -l or LimitMEMLOCK=)"
                                          : ""));
}

absl::Status MemoryDomain::Borrow(absl::Span<std::byte> memory) {
  SLUICE_ASSIGN_OR_RETURN(
      VerbsPtr<ibv_mr> mr,
      Register(memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE));
  borrowed_.push_back(std::move(mr));
  return absl::OkStatus();
}

const ibv_mr* MemoryDomain::RegionOf(const std::byte* data,
                                     size_t bytes) const {
  const auto inside = [data, bytes](const ibv_mr* mr) {
    const auto* start = static_cast<const std::byte*>(mr->addr);
    return data >= start && bytes <= mr->length &&
           static_cast<size_t>(data - start) <= mr->length - bytes;
  };
  if (inside(data_mr_.get())) return data_mr_.get();
  for (const auto& mr : borrowed_) {
    if (inside(mr.get())) return mr.get();
  }
  return nullptr;
}

absl::StatusOr<RegisteredBlock> MemoryDomain::Take(size_t bytes) {
  const size_t block_bytes = BuddyAllocator::BlockBytes(bytes);
  for (size_t i = 0; i <= chunks_.size(); ++i) {
    if (i == chunks_.size()) {
      const size_t chunk_bytes = std::max(kChunkBytes, block_bytes);
      SLUICE_ASSIGN_OR_RETURN(MappedMemory memory,
                              MappedMemory::Map(chunk_bytes));
      SLUICE_ASSIGN_OR_RETURN(
          VerbsPtr<ibv_mr> mr,
          Register(memory.data(), chunk_bytes, IBV_ACCESS_LOCAL_WRITE));
      chunks_.push_back(
          Chunk{std::move(memory), std::move(mr), BuddyAllocator(chunk_bytes)});
    }
    Chunk& chunk = chunks_[i];
    const size_t offset = chunk.allocator.Take(bytes);
    if (offset == BuddyAllocator::kNone) continue;
    return RegisteredBlock{.data = chunk.memory.data() + offset,
                           .bytes = bytes,
                           .lkey = chunk.mr->lkey,
                           .chunk = static_cast<uint32_t>(i)};
  }
  return absl::InternalError("unreachable: a fresh chunk holds the block");
}

void MemoryDomain::Give(const RegisteredBlock& block) {
  if (block.data == nullptr) return;
  Chunk& chunk = chunks_[block.chunk];
  chunk.allocator.Give(static_cast<size_t>(block.data - chunk.memory.data()));
}

size_t MemoryDomain::registered_bytes() const {
  size_t total = extents_->total_bytes();
  for (const auto& mr : borrowed_) total += mr->length;
  for (const Chunk& chunk : chunks_) total += chunk.memory.bytes();
  return total;
}

}  // namespace sluice::transport
