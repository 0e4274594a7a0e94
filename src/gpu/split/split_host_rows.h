// SplitHostRows: requests in host memory, taken to a table over the buses of all GPUs.
//
// Rows are cut by position into chunks, and the GPUs are their homes in turn, so that each bus
// carries its share, of writes, too; chunks take effect in their order all the same. A chunk in
// ordinary memory goes through a pinned buffer: copied in by the caller's thread, copied to the
// home GPU, answered as a part, and its replies copied out when the buffer is needed again. A chunk
// of gets in pinned memory is copied from where it lies, its values are written by a kernel, so
// that misses leave them untouched, and its found bytes are copied back.
//
// Memory. Three times 9 bytes a row of device memory on each GPU, for chunks of at most 2^20 rows,
// and as much pinned memory where calls come from ordinary memory.
// Threads. One at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "gpu/kernel/request_columns.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/split/split_parts.h"

namespace isotherm {

template <class Device>
class SplitHostRows {
 public:
  static constexpr uint32_t most_rows = 1 << 20;  // of a chunk in pinned memory

  // Throws std::bad_alloc.
  SplitHostRows(const SplitGpus<Device>& gpus, SplitParts<Device>& parts)
      : gpus_(gpus), parts_(parts), pinned_rows_(std::min(parts.rows(), most_rows)) {
    for (uint32_t gpu = 0; gpu < gpus.size(); ++gpu) {
      gpus[gpu]->enter();
      for (uint32_t set = 0; set < parts.sets(); ++set) {
        buffers_.push_back({{gpus[gpu]->memory, pinned_rows_ * pinned_row_bytes}});
        const DeviceArray<Device, char>& columns = buffers_.back().columns;
        if (columns.empty()) throw std::bad_alloc();
        // Copied back whole, with the values of misses, which nobody writes.
        Device& device = gpus[gpu]->device;
        const auto stream = parts.part(gpu, set).stream();
        require_device(
            device.clear(stream, columns.data(), columns.bytes()) && device.synchronize(stream),
            "clear columns");
      }
    }
  }

  // All pointers are to host memory; `answer` answers the part of a step. Returns when the replies
  // are there. Throws std::bad_alloc before anything is done.
  template <class Answer>
  void run(const TableRequests& requests, uint64_t window, Answer&& answer) {
    pin();
    parts_.work_off(
        steps(requests.rows, staged_rows()), std::min(window, half()),
        [&](const SplitStep& step) {
          Buffer& buffer = buffer_of(step);
          finish(buffer, step, requests);
          start(buffer, step, requests);
        },
        [&](const SplitStep& step) {
          answer(step);
          bring_back(buffer_of(step), step, requests);
        });
    for (uint32_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      for (uint32_t set = 0; set < parts_.sets(); ++set) {
        const SplitStep step{gpu, set};
        finish(buffer_of(step), step, requests);
      }
    }
  }

  // Gets; all pointers are to pinned memory. Returns when the replies are there.
  template <class Answer>
  void get_pinned(const TableRequests& gets, Answer&& answer) {
    parts_.work_off(
        steps(gets.rows, pinned_rows_), half(),
        [&](const SplitStep& step) {
          TableRequests chunk = rows_of(gets, step.first, step.rows);
          auto* keys = reinterpret_cast<uint64_t*>(buffer_of(step).columns.data());
          SplitPart<Device>& part = parts_.part(step);
          require_device(
              part.device().to_device(part.stream(), keys, chunk.keys, step.rows * sizeof *keys),
              "copy keys");
          chunk.keys = keys;
          chunk.found = found_of(step);
          part.begin(chunk);
        },
        [&](const SplitStep& step) {
          answer(step);
          SplitPart<Device>& part = parts_.part(step);
          require_device(part.device().to_host(part.stream(), gets.found + step.first,
                                               found_of(step), step.rows),
                         "copy replies");
        });
    for (uint32_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      for (uint32_t set = 0; set < parts_.sets(); ++set) wait(parts_.part(gpu, set));
    }
  }

  // What is under way is given up.
  void forget() {
    for (Buffer& buffer : buffers_) buffer.rows = 0;
  }

 private:
  static constexpr uint64_t pinned_row_bytes = sizeof(uint64_t) + 1;  // a key and whether found
  static_assert(pinned_row_bytes * 4 >= RequestColumns::row_bytes);

  struct Buffer {
    DeviceArray<Device, char> columns;  // on the home GPU
    std::unique_ptr<PinnedBlock<Device>> pinned{};
    uint64_t first = 0;
    uint64_t rows = 0;  // 0: idle
  };

  // A chunk of any operation takes four times as much as one of gets.
  uint64_t staged_rows() const { return pinned_rows_ / 4; }
  // Half of the buffers wait for their counts, half for their replies.
  uint64_t half() const { return (buffers_.size() + 1) / 2; }
  Buffer& buffer_of(const SplitStep& step) { return buffers_[step.gpu * parts_.sets() + step.set]; }
  uint8_t* found_of(const SplitStep& step) {
    return reinterpret_cast<uint8_t*>(buffer_of(step).columns.data()) +
           pinned_rows_ * sizeof(uint64_t);
  }
  RequestColumns at_home(const Buffer& buffer) const {
    return {buffer.columns.data(), staged_rows()};
  }
  RequestColumns at_host(const Buffer& buffer) const {
    return {buffer.pinned->data(), staged_rows()};
  }

  void pin() {
    for (Buffer& buffer : buffers_) {
      if (buffer.pinned) continue;
      buffer.pinned = std::make_unique<PinnedBlock<Device>>(
          gpus_[0]->device, staged_rows() * RequestColumns::row_bytes);
    }
  }

  std::vector<SplitStep> steps(uint64_t rows, uint64_t chunk_rows) {
    std::vector<SplitStep> steps;
    uint32_t gpu = 0;
    for (uint64_t first = 0; first < rows; first += chunk_rows) {
      steps.push_back(parts_.next(gpu, first, std::min(chunk_rows, rows - first)));
      gpu = (gpu + 1) % static_cast<uint32_t>(gpus_.size());
    }
    return steps;
  }

  void start(Buffer& buffer, const SplitStep& step, const TableRequests& requests) {
    buffer.first = step.first;
    buffer.rows = step.rows;
    SplitPart<Device>& part = parts_.part(step);
    const TableRequests rows = rows_of(requests, step.first, step.rows);
    const TableRequests staged = at_host(buffer).requests(rows, 0, step.rows);
    each_request_column(staged, rows, [](void* to, const void* from, uint64_t bytes) {
      std::memcpy(to, from, bytes);
    });
    const TableRequests chunk = at_home(buffer).requests(rows, 0, step.rows);
    each_request_column(chunk, staged, [&](void* to, const void* from, uint64_t bytes) {
      require_device(part.device().to_device(part.stream(), to, from, bytes), "copy requests");
    });
    part.begin(chunk);
  }

  void bring_back(Buffer& buffer, const SplitStep& step, const TableRequests& requests) {
    if (requests.found == nullptr) return;
    SplitPart<Device>& part = parts_.part(step);
    const RequestColumns from = at_home(buffer), to = at_host(buffer);
    require_device(part.device().to_host(part.stream(), to.values_out(), from.values_out(),
                                         step.rows * sizeof(uint64_t)) &&
                       part.device().to_host(part.stream(), to.found(), from.found(), step.rows),
                   "copy replies");
  }

  void finish(Buffer& buffer, const SplitStep& step, const TableRequests& requests) {
    if (buffer.rows == 0) return;
    const uint64_t rows = buffer.rows;
    buffer.rows = 0;
    wait(parts_.part(step));
    if (requests.found == nullptr) return;
    copy_replies(at_host(buffer), rows, rows_of(requests, buffer.first, rows));
  }

  static void wait(SplitPart<Device>& part) {
    require_device(part.device().synchronize(part.stream()), "wait for a chunk");
  }

  const SplitGpus<Device>& gpus_;
  SplitParts<Device>& parts_;
  const uint32_t pinned_rows_;
  std::vector<Buffer> buffers_;  // of each set of each GPU
};

}  // namespace isotherm
