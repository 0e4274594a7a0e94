package main

import (
	"errors"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// Hand-made histories on one key. Times are in milliseconds.

type event struct {
	in        input
	out       output
	call, ret int64
}

var testRules = rules{slack: 50 * time.Millisecond}

func historyOf(events []event) []porcupine.Operation {
	var history []porcupine.Operation
	sequence := map[int]int{}
	for i := range events {
		in, out := events[i].in, events[i].out
		in.sequence = sequence[in.client]
		sequence[in.client]++
		in.call = events[i].call * int64(time.Millisecond)
		out.ret = events[i].ret * int64(time.Millisecond)
		history = append(history, porcupine.Operation{ClientId: in.client, Input: &in,
			Call: in.call, Output: &out, Return: out.ret})
	}
	return history
}

func judgeEvents(r rules, events []event) error {
	_, err := check(r, historyOf(events))
	return err
}

func write(client int, value string) input {
	return input{kind: opSet, client: client, value: value}
}

func writeFor(client int, value string, ms int) input {
	in := write(client, value)
	in.expiry = time.Duration(ms) * time.Millisecond
	return in
}

func writeIf(client int, value string, c condition) input {
	in := write(client, value)
	in.condition = c
	return in
}

func read(client int) input { return input{kind: opGet, client: client} }

func readVersion(client int) input { return input{kind: opGets, client: client} }

func swap(client int, value string, version uint64) input {
	return input{kind: opCas, client: client, value: value, version: version}
}

func count(client int, delta int64) input {
	return input{kind: opIncrement, client: client, delta: delta}
}

func extend(client int, value string) input {
	return input{kind: opAppend, client: client, value: value}
}

func flushed(client int) input { return input{kind: opFlush, client: client} }

func saw(value string) output { return output{sight: seenPresent, value: value} }

func sawVersion(value string, version uint64) output {
	return output{sight: seenPresent, value: value, version: version}
}

func sum(number int64) output { return output{sight: seenPresent, number: number} }

func length(number int64) output {
	return output{sight: seenPresent, number: number, hasLen: true}
}

func firstLength(number int64) output {
	return output{sight: seenAbsent, number: number, hasLen: true}
}

var (
	ok        = output{}
	nothing   = output{sight: seenAbsent}
	kept      = output{code: unmet, sight: seenPresent}
	added     = output{sight: seenAbsent}
	swapped   = output{sight: seenPresent}
	differs   = output{code: mismatch, sight: seenPresent}
	gone      = output{code: unmet, sight: seenAbsent}
	firstSum  = output{sight: seenAbsent, number: 1}
	forgotten = output{code: refused}
)

var goodHistories = map[string][]event{
	"a read sees the write before it": {
		{write(0, "a"), ok, 0, 1}, {read(1), saw("a"), 2, 3}},
	"overlapping writes may take effect in either order": {
		{write(0, "a"), ok, 0, 10}, {write(1, "b"), ok, 0, 10}, {read(2), saw("a"), 11, 12}},
	"a read that overlaps a write may see either": {
		{write(0, "a"), ok, 0, 1}, {write(0, "b"), ok, 2, 10},
		{read(1), saw("b"), 3, 4}, {read(2), saw("a"), 2, 4}},
	"one of two conditional writes wins": {
		{writeIf(0, "a", ifAbsent), added, 0, 5}, {writeIf(1, "b", ifAbsent), kept, 0, 5},
		{read(2), saw("a"), 6, 7}},
	"a compare-and-swap with the version read": {
		{write(0, "a"), ok, 0, 1}, {readVersion(1), sawVersion("a", 7), 2, 3},
		{swap(1, "b", 7), swapped, 4, 5}, {read(0), saw("b"), 6, 7}},
	"a compare-and-swap after another write fails": {
		{write(0, "a"), ok, 0, 1}, {readVersion(1), sawVersion("a", 7), 2, 3},
		{write(0, "c"), ok, 4, 5}, {swap(1, "b", 7), differs, 6, 7}, {read(0), saw("c"), 8, 9}},
	"counters add up": {
		{count(0, 1), firstSum, 0, 5}, {count(1, 1), sum(2), 0, 5}, {read(2), saw("2"), 6, 7}},
	"appends add up": {
		{extend(0, "xy"), firstLength(2), 0, 1}, {extend(1, "z"), length(3), 2, 3},
		{read(0), saw("xyz"), 4, 5}},
	"a value is there until its expiry and then is not": {
		{writeFor(0, "a", 100), ok, 0, 1}, {read(1), saw("a"), 40, 41},
		{read(1), nothing, 160, 161}, {writeIf(1, "b", ifAbsent), added, 170, 171}},
	"near its expiry a value may be there or not": {
		{writeFor(0, "a", 100), ok, 0, 1}, {read(1), saw("a"), 120, 121},
		{read(2), nothing, 122, 123}},
	"a flush removes": {
		{write(0, "a"), ok, 0, 1}, {flushed(1), ok, 2, 3}, {read(0), nothing, 4, 5}},
	"a refused write changes nothing": {
		{write(0, "a"), ok, 0, 1}, {write(1, "b"), forgotten, 2, 3}, {read(0), saw("a"), 4, 5}},
	"pipelined requests of one client in the order sent": {
		{write(0, "a"), ok, 0, 9}, {write(0, "b"), ok, 0, 9}, {read(1), saw("b"), 10, 11}},
}

var badHistories = map[string][]event{
	"a stale read": {
		{write(0, "a"), ok, 0, 1}, {write(0, "b"), ok, 2, 3}, {read(1), saw("a"), 4, 5}},
	"reads that go back in time": {
		{write(0, "a"), ok, 0, 1}, {write(0, "b"), ok, 2, 20},
		{read(1), saw("b"), 3, 4}, {read(2), saw("a"), 5, 6}},
	"a lost write": {
		{write(0, "a"), ok, 0, 1}, {read(1), nothing, 2, 3}},
	"a torn value": {
		{write(0, "aaaa"), ok, 0, 5}, {write(1, "bbbb"), ok, 0, 5}, {read(2), saw("aabb"), 6, 7}},
	"a lost increment": {
		{count(0, 1), firstSum, 0, 1}, {count(1, 1), sum(2), 2, 9}, {count(2, 1), sum(2), 2, 9}},
	"a lost append": {
		{extend(0, "xy"), firstLength(2), 0, 1}, {extend(1, "z"), length(3), 2, 9},
		{extend(2, "w"), length(3), 2, 9}},
	"two conditional writes that both win": {
		{writeIf(0, "a", ifAbsent), added, 0, 5}, {writeIf(1, "b", ifAbsent), added, 0, 5}},
	"two compare-and-swaps of one version that both store": {
		{write(0, "a"), ok, 0, 1}, {readVersion(1), sawVersion("a", 7), 2, 3},
		{readVersion(2), sawVersion("a", 7), 2, 3}, {swap(1, "b", 7), swapped, 4, 9},
		{swap(2, "c", 7), swapped, 4, 9}},
	"a compare-and-swap over a write in between": {
		{write(0, "a"), ok, 0, 1}, {readVersion(1), sawVersion("a", 7), 2, 3},
		{write(0, "c"), ok, 4, 5}, {swap(1, "b", 7), swapped, 6, 7}},
	"a compare-and-swap that fails for no reason": {
		{write(0, "a"), ok, 0, 1}, {readVersion(1), sawVersion("a", 7), 2, 3},
		{swap(1, "b", 7), differs, 4, 5}},
	"a compare-and-swap that says absent of a key that is there": {
		{write(0, "a"), ok, 0, 1}, {readVersion(1), sawVersion("a", 7), 2, 3},
		{swap(1, "b", 7), gone, 4, 5}},
	"a version that stays after a write": {
		{write(0, "a"), ok, 0, 1}, {readVersion(1), sawVersion("a", 7), 2, 3},
		{write(0, "b"), ok, 4, 5}, {readVersion(1), sawVersion("b", 7), 6, 7}},
	"a version that goes back after the key was deleted": {
		{write(0, "a"), ok, 0, 1}, {readVersion(1), sawVersion("a", 7), 2, 3},
		{flushed(0), ok, 4, 5}, {write(0, "b"), ok, 6, 7}, {readVersion(1), sawVersion("b", 6), 8, 9}},
	"a value gone long before its expiry": {
		{writeFor(0, "a", 100), ok, 0, 1}, {read(1), nothing, 10, 11}},
	"a value there long after its expiry": {
		{writeFor(0, "a", 100), ok, 0, 1}, {read(1), saw("a"), 300, 301}},
	"an expired value that returns": {
		{writeFor(0, "a", 100), ok, 0, 1}, {read(1), nothing, 90, 91}, {read(1), saw("a"), 92, 93}},
	"an expiry that outlives the value": {
		{writeFor(0, "a", 100), ok, 0, 1}, {write(0, "b"), ok, 2, 3}, {read(1), nothing, 200, 201}},
	"an expiry that an increment dropped": {
		{writeFor(0, "5", 100), ok, 0, 1}, {count(0, 1), sum(6), 2, 3}, {read(1), saw("6"), 300, 301}},
	"a value that survives a flush": {
		{write(0, "a"), ok, 0, 1}, {flushed(1), ok, 2, 3}, {read(0), saw("a"), 4, 5}},
	"pipelined requests of one client in another order": {
		{write(0, "a"), ok, 0, 9}, {write(0, "b"), ok, 0, 9}, {read(1), saw("a"), 10, 11}},
	"a refused write that took effect": {
		{write(0, "a"), ok, 0, 1}, {write(1, "b"), forgotten, 2, 3}, {read(0), saw("b"), 4, 5}},
}

func TestAcceptsWhatIsLinearizable(t *testing.T) {
	for name, events := range goodHistories {
		if err := judgeEvents(testRules, events); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRejectsWhatIsNot(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, events := range badHistories {
		if err := judgeEvents(testRules, events); !errors.Is(err, errNotLinearizable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEvictionMayRemoveButNotBringBack(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	evicting := rules{evicting: true, slack: testRules.slack}
	if err := judgeEvents(evicting, badHistories["a lost write"]); err != nil {
		t.Errorf("an eviction was rejected: %v", err)
	}
	back := []event{{write(0, "a"), ok, 0, 1}, {read(1), nothing, 2, 3}, {read(1), saw("a"), 4, 5}}
	if judgeEvents(evicting, back) == nil {
		t.Error("an evicted value that returns was accepted")
	}
	for _, name := range []string{"a stale read", "a torn value", "a version that stays after a write",
		"two compare-and-swaps of one version that both store"} {
		if judgeEvents(evicting, badHistories[name]) == nil {
			t.Errorf("with eviction %s was accepted", name)
		}
	}
}

func TestWitnessCountsWhatTheOrderShows(t *testing.T) {
	events := goodHistories["a value is there until its expiry and then is not"]
	seen, err := check(testRules, historyOf(events))
	if err != nil || seen.operations != 4 || seen.expired != 1 || seen.mustHaveExpired != 1 {
		t.Errorf("saw %+v, %v", seen, err)
	}
}
