#include "isotherm_bench/codec.h"

#include <algorithm>

#include "isotherm_bench/memcached_codec.h"
#include "isotherm_bench/resp_codec.h"

namespace isotherm::bench {

std::string_view to_string(WireProtocol protocol) {
  return protocol == WireProtocol::redis ? "redis" : "memcached";
}

void Codec::append_key(uint64_t key, std::string& out) const {
  const size_t at = out.size();
  out.resize(at + workload_.key_size);
  write_key(key, workload_.key_size, out.data() + at);
}

void Codec::append_value(uint64_t key, uint64_t size, std::string& out) const {
  const size_t at = out.size();
  out.resize(at + size);
  write_value(key, size, out.data() + at);
}

bool Codec::value_fits(uint64_t key, std::string_view value) const {
  if (!verify_) return true;
  return value.size() >= workload_.value_size_min && value.size() <= workload_.value_size_max &&
         value_belongs(key, value);
}

ParsedReply Codec::failed(std::string_view what, std::string_view received) {
  ParsedReply reply;
  reply.state = ParsedReply::State::failed;
  reply.error.assign(what).append(": '");
  for (char c : received.substr(0, std::min<size_t>(received.size(), 120))) {
    if (c == '\r' || c == '\n') break;
    reply.error += c >= ' ' && c < 127 ? c : '?';
  }
  reply.error += '\'';
  return reply;
}

std::unique_ptr<Codec> make_codec(WireProtocol protocol, const Workload& workload, bool verify) {
  if (protocol == WireProtocol::redis) return std::make_unique<RespCodec>(workload, verify);
  return std::make_unique<MemcachedCodec>(workload, verify);
}

}  // namespace isotherm::bench
