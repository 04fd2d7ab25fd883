// Decides between O_DIRECT and the page cache, and says which where it is not
// the former.
#pragma once

#include <string>

#include "blockdev/block_device.h"

namespace sluice::blockdev {

// Sets O_DIRECT on the descriptor where the kernel and the wanted block size
// allow it, and fills `direct` and `buffer_alignment_bytes` in. Where not, one
// log line says why and the page cache is used: it does read, modify, write.
// `device_block_bytes` is a block device's logical block size, 0 for a file.
// May block.
void ChooseDirectIo(int fd, const std::string& path,
                    uint32_t device_block_bytes, Geometry* geometry);

}  // namespace sluice::blockdev
