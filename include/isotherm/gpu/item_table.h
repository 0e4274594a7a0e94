// gpu::ItemTable: byte-string keys to byte-string values in the memory of one GPU or more, and in
// host memory where that ends, for arrays on either side.
//
//   isotherm::gpu::ItemTable table;
//   table.put(keys, values, n, stream);                // gpu::Bytes of device pointers
//   table.get(keys, {found, offsets, bytes, capacity}, n, stream);
//   table.put(key_spans, value_spans);                 // gpu::ByteSpans of the host
//   uint64_t bytes = table.get(key_spans, {found, offsets, bytes, capacity});
//
// Layout. A column of n byte strings is n + 1 offsets (int64, as Arrow's large_binary) and the
// bytes: string i is bytes[offsets[i]] up to bytes[offsets[i + 1]]; the first offset need not be 0.
// Replies have the same form, with offsets from 0 on: value i of a get that hit is
// bytes[offsets[i]] up to bytes[offsets[i + 1]]; all other rows have length 0.
//
// Replies. found[i] is 1 where the key was present before the request, 0 where it was absent, 253
// (`reply_other_version`) where it was present with another version than the request names, 255
// (`reply_retry`) where memory was full, and 254 (`reply_refused`) where the table cannot take the
// row (see Errors); in the last three cases the row changed nothing. The whole reply takes
// offsets[n] bytes. Where that is more than `capacity`, found and offsets are complete, nothing is
// written beyond the capacity, and the bytes have no meaning; puts and erases have taken effect all
// the same.
// The other columns of a reply say of the item that was there before the request, of gets the one
// that is read, its version, expiry and flags: 0 where there was none. With `previous` puts and
// erases, too, reply the value that was there.
//
// Conditions. put_if_absent takes effect where found is 0; put_if_present, put_if_version and
// erase_if_version where it is 1. The last two name the version that the item must have.
//
// Versions. Each put gives its item a version, and new_versions tells it; of an erase that took
// effect it tells one, too, which lies between those of the items before and after. The versions of
// a key grow with each change, also across erases, eviction and expiry; they are not dense, and
// those of different keys say nothing of one another. 0 is no version. They begin with the table:
// nothing is stored of them beside the items, as they are made of a count of the parts of calls
// that may write and of the row within its part.
//
// Order. The requests of one call take effect in the order of the arrays, also where several are
// for one key, and calls take effect in the order they were made, whatever their streams. Keys are
// compared in full; keys whose hashes agree in all 64 bits are different keys.
//
// Device pointers. A call returns when its work is queued; what it reads and writes belongs to it
// until the stream has passed it. Calls with writes wait on the host for counts.
// Host pointers. Calls return when the replies are there. Pinned memory (cudaMallocHost,
// cudaHostRegister) is copied at the speed of the bus, other memory at less.
//
// Expiry. A put may carry an absolute time in ms; a call whose `now_ms` is at or after it finds the
// key absent. Each call with writes that has a `now_ms` looks at some items for each of its rows,
// so all expired items are freed while the table is written to. An expired item whose hash several
// keys share is freed when its key is put again or erased.
//
// Memory. An item takes 8 bytes beside its key and its value, each in whole 8 bytes; up to 40 where
// it has an expiry or flags (8 each), a long key or value, or where a call wrote its key several
// times. Blocks of more than 256 bytes come in steps of an eighth at most. With the index, an item
// of 16 + 64 bytes takes at most 115 bytes in all.
// Items of about one size lie in slabs. Where memory has ended, slabs that are wholly free
// go to the sizes that need some. With `evict`, a size whose puts find no memory also takes slabs,
// with their items, from the size that has the most memory for what was put into it lately; so
// memory follows when the sizes of values change. Otherwise it evicts items of its own size by
// CLOCK: gets mark what they read, and new items have no mark. Puts are answered reply_retry where
// this is not enough.
//
// Host memory. With `pinned_item_memory` a slab that device memory has no room for lies in pinned
// memory of the host, and all of the above begins when both have ended; `pinned_items_from` sends
// large items there from the start. The index stays on the device, which keeps room for it: 29
// bytes for each item in either memory. Host memory for more items than that stays unused. The room
// is kept from the first put on, so with several times as much host memory as device memory few
// items, or none, lie on the device. A put takes a free block of the device before one of the host,
// but an item that lies on the host stays there, however often it is read, until its key is put
// again. Kernels read and write it over the bus, some 44 M random reads of 64 bytes a second on an
// H200: host memory lets puts find room, it does not make them fast. The search for expired items
// and CLOCK go over that bus, too. Host memory that the system does not give counts as full.
//
// Several GPUs. With `devices` each key lies on the GPU that its hash says. The host deals the rows
// of a call out and puts the replies together; arrays on a GPU, which `place` names by its position
// in `devices`, are copied to the host and back for that. A call then returns when its replies are
// there. The pinned memory is shared out evenly.
//
// Limits. Keys of up to 65,535 bytes, values of up to 8 MiB. Operations are get, put, erase,
// put_if_absent, put_if_present, put_if_version and erase_if_version; where one of the conditional
// ones and others write one key within some 2^18 rows, those rows are worked off one after the
// other, about a million of a key a second. A new value is a new item: until the end of its part of
// the call (some 2^18 rows) the old one keeps its memory. Without `evict` a slab with one item left
// stays with its size. The work space is taken at the start and counts, too. Threads. Any; calls
// take turns. Errors. Rows are checked one by one. A row is answered reply_refused if its offsets
// fall, if they leave the range between the column's first and last offset (of host arrays: between
// those of some 2^18 rows around it), if a length is above its limit, if its operation is none of
// those above, or if it names no version where one is needed; the other rows take effect. A call of
// host arrays that gave no `found` throws std::invalid_argument after that if rows were refused. A
// call throws std::invalid_argument before anything changes if columns are missing, or if host
// arrays cannot be copied: their offsets fall between the beginning and the end of a part of the
// call, or a string is longer than the work space, which holds the longest allowed one at least.
// DeviceError (std::runtime_error) without a GPU or when the device fails, after which the table is
// lost and every call throws; std::bad_alloc without memory for the empty table. Sources. Mega-KV,
// sections 3 and 4; MemcachedGPU, section 4 (values on the device).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "isotherm/gpu/common.h"

namespace isotherm {
class DevicePackets;
}  // namespace isotherm

namespace isotherm::gpu {

inline constexpr uint8_t reply_other_version = 253;
inline constexpr uint8_t reply_refused = 254;
inline constexpr uint64_t max_item_key_bytes = 65'535;
inline constexpr uint64_t max_item_value_bytes = uint64_t{8} << 20;

struct ItemTableOptions {
  std::vector<int> devices = {0};  // by CUDA's numbers; empty: all that there are
  // Bytes of each GPU's memory that the table may take; 0: no cap. At least 256 MiB.
  uint64_t gpu_memory = 0;
  // Bytes of host memory that items may take beside; 0: none. It is taken as they come, and pinned.
  uint64_t pinned_item_memory = 0;
  // Items in blocks of so many bytes or more lie in host memory as long as it has room; 0: none by
  // their size.
  uint64_t pinned_items_from = 0;
  // Items to make room for in the index at once; more are taken in by growth.
  uint64_t expected_entries = 0;
  // Where memory has ended, items that were not read lately make room for puts.
  bool evict = false;
  // Seed of the hash; empty: drawn at random.
  std::optional<uint64_t> hash_seed;
};

// `entries` are items; `host_bytes` what slabs and their lists take of host memory.
struct ItemStats : TableStats {
  uint64_t evicted = 0;          // ever
  uint64_t expired = 0;          // that were freed by the sweep, ever
  uint64_t host_item_bytes = 0;  // of `host_bytes`, what the items there take
};

// A column of byte strings, as above.
struct Bytes {
  const int64_t* offsets = nullptr;
  const char* bytes = nullptr;
};

// The same in host memory: n + 1 offsets for n strings, or none for none.
struct ByteSpans {
  std::span<const int64_t> offsets;
  std::span<const char> bytes;
};

// Where replies go.
struct ItemReplies {
  uint8_t* found = nullptr;    // [rows]; null: not wanted
  int64_t* offsets = nullptr;  // [rows + 1]; null, with the bytes: no values wanted
  char* bytes = nullptr;       // [capacity]
  uint64_t capacity = 0;
  bool previous = false;  // values of puts and erases are wanted, too: those before them
  // [rows] each; null: not wanted.
  uint64_t* versions = nullptr;
  int64_t* expiry = nullptr;
  uint32_t* flags = nullptr;
  uint64_t* new_versions = nullptr;  // of writes that took effect; 0: the row changed nothing
};

struct ItemRequests {
  uint64_t rows = 0;
  const TableOp* ops = nullptr;  // null: all are `op`
  TableOp op = TableOp::get;
  Bytes keys;
  Bytes values;                     // of puts; what other rows have there is not looked at
  const int64_t* expiry = nullptr;  // of puts, ms; 0: never; null: all never
  const uint32_t* flags = nullptr;  // of puts, kept for the caller; null: all 0
  // What put_if_version and erase_if_version name; other rows' are not looked at.
  const uint64_t* versions = nullptr;
  int64_t now_ms = 0;  // 0: nothing is expired
  ItemReplies replies;
};

class ItemTable {
 public:
  explicit ItemTable(const ItemTableOptions& options = {});
  ~ItemTable();
  ItemTable(const ItemTable&) = delete;
  ItemTable& operator=(const ItemTable&) = delete;

  // Device pointers, in stream order, to columns of n rows.
  void get(Bytes keys, const ItemReplies& replies, uint64_t n, Stream stream);
  void put(Bytes keys, Bytes values, uint64_t n, Stream stream);
  void erase(Bytes keys, uint64_t n, Stream stream);
  // Any mix of operations, with all replies, for arrays in the memory of any GPU of the table.
  void run(const ItemRequests& requests, Stream stream, uint32_t place = 0);

  // Arrays in host memory; each returns when its replies are there. get and run_host return the
  // bytes of the whole reply. Throws std::invalid_argument for unequal lengths.
  uint64_t get(ByteSpans keys, const ItemReplies& replies);
  void put(ByteSpans keys, ByteSpans values);
  void erase(ByteSpans keys);
  // Any mix of operations, all pointers to host memory.
  uint64_t run_host(const ItemRequests& requests);

  // Waits for all calls made so far.
  ItemStats stats();

 private:
  friend class isotherm::DevicePackets;  // engine/device_packets.h
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isotherm::gpu
