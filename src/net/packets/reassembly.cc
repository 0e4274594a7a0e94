#include "net/packets/reassembly.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gpu/udp/request_frame.h"

namespace isotherm::net {
namespace {

constexpr uint32_t ip_at = RequestFrame::ethernet_bytes;
constexpr uint32_t part_unit = 8;  // what offsets count
constexpr uint32_t v6_part_head = 8;
constexpr uint16_t v6_type = 0x86dd;
constexpr uint16_t v4_type = 0x0800;
constexpr uint8_t v6_part = 44;

// What a packet can carry; the lengths of IPv4 count its head, as far as it is known.
size_t most_carried(std::string_view head, bool v6) {
  constexpr size_t most = 65'535;
  return v6 ? most : most + ip_at - std::max<size_t>(head.size(), ip_at);
}

}  // namespace

bool Reassembly::read_v4(std::string_view frame, Part& part) {
  if (frame.size() < ip_at + RequestFrame::v4_bytes) return false;
  const char* const ip = frame.data() + ip_at;
  const uint32_t head = (frame_bytes::byte_at(ip) & 15u) * 4;
  const uint32_t all = frame_bytes::number_at(ip + 2);
  if (head < RequestFrame::v4_bytes || all < head || all > frame.size() - ip_at) return false;
  if (frame_bytes::byte_at(ip + 9) != RequestFrame::udp) return false;
  constexpr uint32_t more = 0x2000;
  constexpr uint32_t offset_mask = 0x1fff;
  const uint32_t word = frame_bytes::number_at(ip + 6);
  part.more = (word & more) != 0;
  part.begin = (word & offset_mask) * part_unit;
  part.number = frame_bytes::number_at(ip + 4);
  part.head = frame.substr(0, ip_at + head);
  part.data = frame.substr(ip_at + head, all - head);
  return true;
}

bool Reassembly::read_v6(std::string_view frame, Part& part) {
  constexpr uint32_t head = ip_at + RequestFrame::v6_bytes;
  if (frame.size() < head + v6_part_head) return false;
  const char* const ip = frame.data() + ip_at;
  const uint32_t carried = frame_bytes::number_at(ip + 4);
  if (carried < v6_part_head || carried > frame.size() - head) return false;
  const char* const its = frame.data() + head;
  if (frame_bytes::byte_at(ip + 6) != v6_part || frame_bytes::byte_at(its) != RequestFrame::udp)
    return false;
  constexpr uint32_t more = 1;
  constexpr uint32_t offset_mask = 0xfff8;
  const uint32_t word = frame_bytes::number_at(its + 2);
  part.v6 = true;
  part.more = (word & more) != 0;
  part.begin = word & offset_mask;
  part.number = uint32_t{frame_bytes::number_at(its + 4)} << 16 | frame_bytes::number_at(its + 6);
  part.head = frame.substr(0, head);
  part.data = frame.substr(head + v6_part_head, carried - v6_part_head);
  return true;
}

bool Reassembly::read(std::string_view frame, Part& part) {
  if (frame.size() < ip_at) return false;
  const uint16_t type = frame_bytes::number_at(frame.data() + 12);
  if (type != v4_type && type != v6_type) return false;
  if (!(type == v6_type ? read_v6(frame, part) : read_v4(frame, part))) return false;
  part.end = part.begin + static_cast<uint32_t>(part.data.size());
  part.key =
      frame.substr(RequestFrame::addresses_at(part.v6), 2 * RequestFrame::address_bytes(part.v6));
  return fits(part);
}

// Whether such a fragment can be one of a packet.
bool Reassembly::fits(const Part& part) {
  if (part.data.empty() || (part.more && part.data.size() % part_unit != 0)) return false;
  return part.end <= most_carried(part.head, part.v6);
}

std::string Reassembly::take(std::string_view frame, int64_t now_us) {
  drop_old(now_us);
  Part part;
  if (!read(frame, part)) {
    ++counts_.faulty;
    return {};
  }
  // All of a packet in one fragment has nothing to do with others of its number (RFC 6946).
  if (part.begin == 0 && !part.more) {
    ++counts_.fragments;
    ++counts_.joined;
    return whole(part.head, part.data, part.v6);
  }
  const Place place = find(part, now_us);
  const bool fits_in = !place->ended && add(*place, part);
  if (!fits_in || place->data.size() > most_carried(place->head, part.v6)) {
    end(*place);
    ++counts_.faulty;
    return {};
  }
  ++counts_.fragments;
  if (place->all == 0 || place->there != place->all) return {};
  ++counts_.joined;
  std::string all = whole(place->head, place->data, part.v6);
  bytes_ -= place->data.size();
  datagrams_.erase(place);
  return all;
}

Reassembly::Place Reassembly::find(const Part& part, int64_t now_us) {
  const Place found = std::find_if(datagrams_.begin(), datagrams_.end(), [&](const Datagram& its) {
    return its.number == part.number && its.key == part.key;
  });
  if (found != datagrams_.end()) return found;
  if (datagrams_.size() == most_datagrams) give_up(datagrams_.begin());
  Datagram fresh;
  fresh.key = part.key;
  fresh.number = part.number;
  fresh.began_us = now_us;
  datagrams_.push_back(std::move(fresh));
  return std::prev(datagrams_.end());
}

// False where it does not fit in with the others.
bool Reassembly::add(Datagram& to, const Part& part) {
  const auto behind =
      std::lower_bound(to.ranges.begin(), to.ranges.end(), part.begin,
                       [](const Range& range, uint32_t begin) { return range.begin < begin; });
  const bool has_next = behind != to.ranges.end();
  if (!part.more && to.all != 0 && part.end != to.all) return false;
  if (has_next && behind->begin == part.begin && behind->end == part.end) return true;
  if (has_next && behind->begin < part.end) return false;
  if (behind != to.ranges.begin() && std::prev(behind)->end > part.begin) return false;
  if (part.more && to.all != 0 && part.end >= to.all) return false;
  if (!part.more && has_next) return false;
  // What may lack memory comes first.
  if (part.begin == 0) to.head = part.head;
  const size_t before = to.data.size();
  if (before < part.end) {
    to.data.resize(part.end);
    bytes_ += part.end - before;
  }
  to.ranges.insert(behind, {part.begin, part.end});
  if (!part.more) to.all = part.end;
  to.there += part.end - part.begin;
  part.data.copy(to.data.data() + part.begin, part.data.size());
  while (bytes_ > most_bytes && &datagrams_.front() != &to) give_up(datagrams_.begin());
  return true;
}

// It stays, so that the rest of it is dropped, too.
void Reassembly::end(Datagram& datagram) {
  datagram.ended = true;
  bytes_ -= datagram.data.size();
  datagram.data = {};
  datagram.ranges = {};
}

void Reassembly::give_up(Place datagram) {
  ++counts_.given_up;
  bytes_ -= datagram->data.size();
  datagrams_.erase(datagram);
}

void Reassembly::drop_old(int64_t now_us) {
  while (!datagrams_.empty() && now_us - datagrams_.front().began_us >= patience_us) {
    give_up(datagrams_.begin());
  }
}

// The frame of a packet that carries this.
std::string Reassembly::whole(std::string_view head, std::string_view data, bool v6) {
  std::string frame;
  frame.reserve(head.size() + data.size());
  frame.append(head).append(data);
  char* const ip = frame.data() + ip_at;
  if (v6) {
    frame_bytes::put_number(ip + 4, static_cast<uint32_t>(data.size()));
    ip[6] = static_cast<char>(RequestFrame::udp);
    return frame;
  }
  const auto head_bytes = static_cast<uint32_t>(head.size()) - ip_at;
  frame_bytes::put_number(ip + 2, head_bytes + static_cast<uint32_t>(data.size()));
  frame_bytes::put_number(ip + 6, 0);
  frame_bytes::store16(ip + 10, 0);
  frame_bytes::store16(ip + 10,
                       static_cast<uint16_t>(~frame_bytes::fold(frame_bytes::sum(ip, head_bytes))));
  return frame;
}

}  // namespace isotherm::net
