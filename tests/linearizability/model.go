package main

import (
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
)

// The model: what one key may answer.
//
// Every step is deterministic. A key may vanish by itself, at its expiry or (where the server may
// evict) at any time, but the answers tell when it had: all operations whose effect depends on
// presence also show it, so a step settles what is known and never forks. Operations that show
// nothing (plain SET, FLUSHALL) overwrite whatever there was.
//
// Expiry. The server computes the deadline from its own clock at some moment between call and
// return, and may read that clock once for a whole turn of its loop; so the deadline is an
// interval, widened by `slack` on both sides. Before it the key must be there, after it not.
//
// Order of one client. Pipelined operations overlap in time, yet must take effect in the order
// sent: each carries its sequence number, and the state counts the operations of each client.

const maxClients = 24

type state struct {
	present     bool
	value       string
	version     uint64 // 0: not known since the last write
	lastVersion uint64 // the highest known of this key, ever
	earliest    int64  // the expiry lies in [earliest, latest]; 0: none
	latest      int64
	next        [maxClients]uint32
}

// What happened on the way, for judging whether a run tested anything.
type witness struct {
	operations, expired, mustHaveExpired, evicted int
	casStored, casMismatch, casAbsent             int
	unmet, sums, notIntegers, refused, oldValues  int
	unanswered                                    int
}

func (w *witness) add(o witness) {
	w.operations += o.operations
	w.expired += o.expired
	w.mustHaveExpired += o.mustHaveExpired
	w.evicted += o.evicted
	w.casStored += o.casStored
	w.casMismatch += o.casMismatch
	w.casAbsent += o.casAbsent
	w.unmet += o.unmet
	w.sums += o.sums
	w.notIntegers += o.notIntegers
	w.refused += o.refused
	w.oldValues += o.oldValues
	w.unanswered += o.unanswered
}

type rules struct {
	evicting bool
	restarts bool
	slack    time.Duration
}

// Settles whether the key was there; false when the answer is impossible.
func (r rules) settle(s *state, in *input, out *output, w *witness) bool {
	switch out.sight {
	case seenPresent:
		return s.present && (s.latest == 0 || in.call <= s.latest)
	case seenAbsent:
		if !s.present {
			return true
		}
		byExpiry := s.latest != 0 && out.ret >= s.earliest
		if !byExpiry && !r.evicting {
			return false
		}
		if w != nil {
			switch {
			case !byExpiry:
				w.evicted++
			case in.call > s.latest:
				w.mustHaveExpired++
				w.expired++
			default:
				w.expired++
			}
		}
		s.erase()
	}
	return true
}

func (s *state) erase() {
	s.present, s.value, s.version, s.earliest, s.latest = false, "", 0, 0, 0
}

func (s *state) write(value string) {
	s.present, s.value, s.version = true, value, 0
}

func (r rules) step(s state, in *input, out *output, w *witness) (bool, state) {
	if s.next[in.client] != uint32(in.sequence) {
		return false, s
	}
	s.next[in.client]++
	if w != nil {
		w.operations++
	}
	if out.code == refused {
		if w != nil {
			w.refused++
		}
		return true, s
	}
	if !r.settle(&s, in, out, w) {
		return false, s
	}
	if out.value != "" && out.value != s.value {
		return false, s
	}
	var ok bool
	switch in.kind {
	case opGet:
		ok = true
	case opGets:
		ok = s.learn(out)
	case opSet:
		ok = r.set(&s, in, out, w)
	case opCas:
		ok = s.compareAndSwap(in, out, w)
	case opDelete, opGetDelete, opFlush:
		s.erase()
		ok = true
	case opIncrement:
		ok = s.increment(in, out, w)
	case opAppend, opPrepend:
		ok = s.extend(in, out)
	}
	return ok, s
}

// gets: versions are the same while nothing is written and grow with every write.
func (s *state) learn(out *output) bool {
	if out.sight != seenPresent {
		return true
	}
	if s.version != 0 {
		return out.version == s.version
	}
	if out.version <= s.lastVersion {
		return false
	}
	s.version, s.lastVersion = out.version, out.version
	return true
}

func (r rules) set(s *state, in *input, out *output, w *witness) bool {
	if w != nil && in.wantOld && out.sight == seenPresent {
		w.oldValues++
	}
	if out.code == unmet {
		if w != nil {
			w.unmet++
		}
		return in.condition == ifAbsent && out.sight == seenPresent ||
			in.condition == ifPresent && out.sight == seenAbsent
	}
	if in.condition == ifAbsent && out.sight != seenAbsent ||
		in.condition == ifPresent && out.sight != seenPresent {
		return false
	}
	s.write(in.value)
	switch {
	case in.expiry != 0:
		s.earliest = in.call + int64(in.expiry-r.slack)
		s.latest = out.ret + int64(in.expiry+r.slack)
	case !in.keepExpiry:
		s.earliest, s.latest = 0, 0
	}
	return true
}

// cas: `in.version` was read by an earlier gets of the same client, so wherever that gets stands in
// the order, the version it saw is known here unless something was written since.
func (s *state) compareAndSwap(in *input, out *output, w *witness) bool {
	if w != nil {
		switch out.code {
		case done:
			w.casStored++
		case mismatch:
			w.casMismatch++
		default:
			w.casAbsent++
		}
	}
	switch out.code {
	case done:
		if s.version != in.version {
			return false
		}
		s.write(in.value)
		s.earliest, s.latest = 0, 0
		return true
	case mismatch:
		return s.version != in.version
	}
	return out.sight == seenAbsent
}

func (s *state) increment(in *input, out *output, w *witness) bool {
	if out.code == unmet {
		return in.condition == ifPresent && out.sight == seenAbsent
	}
	number, err := int64(0), error(nil)
	if s.present {
		number, err = strconv.ParseInt(s.value, 10, 64)
	}
	if out.code == notInteger {
		if w != nil {
			w.notIntegers++
		}
		return err != nil
	}
	if err != nil || out.number != number+in.delta {
		return false
	}
	if w != nil {
		w.sums++
	}
	s.write(strconv.FormatInt(out.number, 10))
	return true
}

func (s *state) extend(in *input, out *output) bool {
	if out.code == unmet {
		return in.condition == ifPresent && out.sight == seenAbsent
	}
	value := s.value + in.value
	if in.kind == opPrepend {
		value = in.value + s.value
	}
	if out.hasLen && out.number != int64(len(value)) {
		return false
	}
	s.write(value)
	return true
}

// model wraps the rules for Porcupine, one partition a key.
func (r rules) model() porcupine.Model {
	if r.restarts {
		return r.restartModel()
	}
	return r.deterministicModel()
}

func (r rules) deterministicModel() porcupine.Model {
	return porcupine.Model{
		Partition: byKey,
		Init:      func() interface{} { return state{} },
		Step: func(s, in, out interface{}) (bool, interface{}) {
			return r.step(s.(state), in.(*input), out.(*output), nil)
		},
		Equal: func(a, b interface{}) bool { return a.(state) == b.(state) },
		DescribeOperation: func(in, out interface{}) string {
			return in.(*input).String() + " → " + out.(*output).String()
		},
		DescribeState: func(s interface{}) string {
			if !s.(state).present {
				return "absent"
			}
			return brief(s.(state).value)
		},
	}
}

func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	keys := map[int]int{}
	var parts [][]porcupine.Operation
	for _, operation := range history {
		key := operation.Input.(*input).key
		at, known := keys[key]
		if !known {
			at = len(parts)
			keys[key] = at
			parts = append(parts, nil)
		}
		parts[at] = append(parts[at], operation)
	}
	return parts
}

// replay walks a found order again and counts what it shows.
func (r rules) replay(order []porcupine.Operation) witness {
	var w witness
	var s state
	for _, operation := range order {
		_, s = r.step(s, operation.Input.(*input), operation.Output.(*output), &w)
	}
	return w
}
