#include "stackable/both_writer.h"

#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "stackable/rocks_words.h"

namespace isotherm {
namespace {

using Status = rocksdb::Status;

constexpr std::string_view number_key = "isotherm.last_of_both";

std::string text_of(uint64_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

// An intent is the number and then the changes, as RocksDB writes them down.
bool read_number(std::string_view text, uint64_t& number) {
  if (text.size() < sizeof number) return false;
  std::memcpy(&number, text.data(), sizeof number);
  return true;
}

rocksdb::WriteBatch changes_of(const std::string& intent) {
  return rocksdb::WriteBatch(intent.substr(sizeof(uint64_t)));
}

}  // namespace

Status BothWriter::finish() {
  std::string text;
  Status status = others_.Get(rocksdb::ReadOptions(), slice_of(number_key), &text);
  if (!status.ok() && !status.IsNotFound()) return status;
  if (status.ok() && !read_number(text, last_number_)) {
    return Status::Corruption("the number of the last write of several column families");
  }
  std::map<uint64_t, std::string> cut_off;
  for (uint32_t slot = 0; slot < slots; ++slot) {
    std::string intent;
    const DbStatus read = intents_.read(slot, intent);
    if (read.is_not_found()) break;
    if (!read.ok()) return rocks_status(read);
    uint64_t number = 0;
    if (!read_number(intent, number)) return Status::Corruption("an intent");
    if (number > last_number_) cut_off.emplace(number, std::move(intent));
    ++used_;
  }
  for (auto& [number, intent] : cut_off) {
    rocksdb::WriteBatch others = families_.fit_part(changes_of(intent));
    status = write_others(rocksdb::WriteOptions(), number, others);
    if (!status.ok()) return status;
    last_number_ = number;
  }
  return used_ == 0 ? Status::OK() : erase_intents();
}

Status BothWriter::write(const rocksdb::WriteOptions& how, const WriteGroup& group,
                         rocksdb::WriteBatch& others) {
  const auto turn = this->turn();
  if (Status status = families_.check(others); !status.ok()) return status;
  if (Status status = finish_last(); !status.ok()) return status;
  if (used_ == slots || bytes_ > most_bytes) {
    if (Status status = erase_intents(); !status.ok()) return status;
  }
  std::string intent = text_of(last_number_ + 1) + others.Data();
  Status status = rocks_status(intents_.write(group, used_, intent));
  if (!status.ok()) return status;
  ++last_number_;
  ++used_;
  bytes_ += intent.size();
  if (!syncs_) status = rocks_status(db_.sync());
  if (status.ok()) status = write_others(how, last_number_, others);
  if (!status.ok()) unfinished_ = std::move(intent);
  return status;
}

Status BothWriter::write_others(const rocksdb::WriteOptions& how, uint64_t number,
                                rocksdb::WriteBatch& others) {
  rocksdb::WriteOptions its = how;
  its.disableWAL = false;  // the number must not come before the changes
  Status status = others.Put(slice_of(number_key), text_of(number));
  return status.ok() ? others_.Write(its, &others) : status;
}

Status BothWriter::finish_last() {
  if (unfinished_.empty()) return Status::OK();
  rocksdb::WriteBatch others = families_.fit_part(changes_of(unfinished_));
  Status status = rocks_status(db_.sync());
  if (status.ok()) status = write_others(rocksdb::WriteOptions(), last_number_, others);
  if (status.ok()) unfinished_.clear();
  return status;
}

Status BothWriter::erase_intents() {
  Status status = others_.SyncWAL();
  if (status.ok()) status = rocks_status(intents_.erase(used_));
  if (!status.ok()) return status;
  used_ = 0;
  bytes_ = 0;
  return status;
}

}  // namespace isotherm
