// Command linearizability drives a running server with concurrent clients on a few keys and checks
// with Porcupine that each key's history is linearizable, while the index grows, memory churns,
// keys expire and (with -evicting) are evicted. docs/linearizability.md tells more.
//
// Exit status: 0 all histories are linearizable; 1 one is not; 2 the run could not be made; 3 all
// are, but the run did not show what it should have tested; 4 one could not be judged in time.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

type settings struct {
	target       target
	histories    int
	seed         int64
	evicting     bool
	profile      string
	clients      int
	keys         int
	fill         int
	slack        time.Duration
	allowVacuous bool
	restart      string
}

func main() {
	var s settings
	flag.StringVar(&s.target.resp, "resp", "", "address of the RESP port")
	flag.StringVar(&s.target.memcached, "memcached", "", "address of the memcached port")
	flag.StringVar(&s.target.packets, "packets", "",
		"address where memcached's requests come in frames: a third of the clients, besides, use it")
	flag.IntVar(&s.histories, "histories", 20, "how many histories to make and check")
	flag.Int64Var(&s.seed, "seed", time.Now().UnixNano(), "seed of all that is drawn")
	flag.BoolVar(&s.evicting, "evicting", false, "the server may evict: keys may vanish at any time")
	flag.StringVar(&s.profile, "profile", "", "make histories of this profile only")
	flag.IntVar(&s.clients, "clients", 12, "clients; a third of them speaks memcached")
	flag.IntVar(&s.keys, "keys", 8, "keys that the clients contend for")
	flag.IntVar(&s.fill, "fill", 200000, "other keys written during each history")
	flag.DurationVar(&s.slack, "slack", 100*time.Millisecond, "how inexact an expiry may be")
	flag.BoolVar(&s.allowVacuous, "allow-vacuous", false, "do not demand that everything occurred")
	flag.StringVar(&s.restart, "restart", "",
		"instead, a server with a journal that is killed and started again: its binary and flags")
	flag.Parse()
	if (s.target == (target{})) == (s.restart == "") || s.clients < 2 || s.clients > maxClients || s.keys < 2 {
		flag.Usage()
		os.Exit(2)
	}
	os.Exit(run(s))
}

// The exit status where a history took too long to judge.
const noVerdict = 4

func run(s settings) int {
	if s.restart != "" {
		s.target, s.fill, s.profile, s.clients = target{resp: "of its own"}, 0, "restart", 5
	}
	chosen, err := choose(s)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	random := rand.New(rand.NewSource(s.seed))
	fmt.Printf("seed %d\n", s.seed)
	var total witness
	replaced := false
	for i := 0; i < s.histories; i++ {
		p := s.plan(i, chosen[i%len(chosen)], random)
		var status int
		var seen witness
		if s.restart != "" {
			status, seen = makeRestarting(p, s, random)
		} else {
			status, seen = makeOne(p, s)
		}
		// One that takes too long to judge says nothing of the server: another takes its place, once a run.
		if status == noVerdict && !replaced {
			replaced = true
			i--
			continue
		}
		if status != 0 {
			return status
		}
		total.add(seen)
	}
	fmt.Printf("%d histories are linearizable: %+v\n", s.histories, total)
	return judge(s, total)
}

func choose(s settings) ([]profile, error) {
	var chosen []profile
	var names []string
	for _, p := range append(profiles(), restarting()) {
		names = append(names, p.name)
		if p.name == s.profile || s.profile == "" && p.name != "restart" && (s.target.resp != "" || p.name != "expiry") {
			chosen = append(chosen, p)
		}
	}
	if chosen == nil {
		return nil, fmt.Errorf("no profile %q; there are %s", s.profile, strings.Join(names, ", "))
	}
	return chosen, nil
}

func (s settings) plan(number int, chosen profile, random *rand.Rand) plan {
	p := plan{number: number, seed: random.Int63(), profile: chosen, keys: s.keys, fill: s.fill,
		largeFill: s.evicting, flushMiddle: s.target.resp != "" && random.Intn(2) == 0}
	switch {
	case s.target.resp == "":
		p.memcachers = s.clients
	case s.target.memcached == "":
		p.clients = s.clients
	default:
		p.memcachers = s.clients / 3
		p.clients = s.clients - p.memcachers
	}
	if s.target.packets != "" {
		p.packeters = (s.clients + 2) / 3
	}
	return p
}

func makeOne(p plan, s settings) (int, witness) {
	began := time.Now()
	if err := empty(s.target); err != nil {
		fmt.Fprintf(os.Stderr, "history %d (%s): %v\n", p.number, p.profile.name, err)
		return 2, witness{}
	}
	history, err := p.run(s.target)
	if err != nil {
		fmt.Fprintf(os.Stderr, "history %d (%s): %v\n", p.number, p.profile.name, err)
		return 2, witness{}
	}
	status, seen := judgeOne(p, rules{evicting: s.evicting, slack: s.slack}, history, began)
	return status, seen
}

func judgeOne(p plan, r rules, history []porcupine.Operation, began time.Time) (int, witness) {
	made := time.Now()
	seen, err := check(r, history)
	if err != nil {
		fmt.Printf("history %d (%s): %v\n", p.number, p.profile.name, err)
		if errors.Is(err, errNoVerdict) {
			return noVerdict, seen
		}
		return 1, seen
	}
	fmt.Printf("history %d (%s): %d operations, %.1f s, checked in %.1f s\n", p.number,
		p.profile.name, len(history), made.Sub(began).Seconds(), time.Since(made).Seconds())
	return 0, seen
}

// empty starts every history with an index that has to grow again.
func empty(t target) error {
	if t.resp == "" {
		return nil
	}
	_, err := ask(t.resp, "FLUSHALL")
	return err
}

func ask(address string, words ...string) (string, error) {
	c, err := dial(respCodec{}, address)
	if err != nil {
		return "", err
	}
	defer c.conn.Close()
	c.buffer = appendCommand(c.buffer, words...)
	if err := c.send(); err != nil {
		return "", err
	}
	reply, err := readResp(c.reader)
	if err == nil && reply.kind == '-' {
		err = fmt.Errorf("%s: %s", strings.Join(words, " "), reply.text)
	}
	return reply.text, err
}

// judge refuses a run in which something that should have been tested never occurred.
func judge(s settings, total witness) int {
	if s.restart != "" && total.unanswered == 0 {
		fmt.Println("the run tested too little; missing: an operation without an answer")
		return 3
	}
	if s.allowVacuous || s.profile != "" || s.histories < len(profiles()) {
		return 0
	}
	var missing []string
	need := func(count int, what string) {
		if count == 0 {
			missing = append(missing, what)
		}
	}
	need(total.unmet, "a condition that did not hold")
	need(total.sums, "an increment")
	need(total.notIntegers, "an increment of text")
	if s.target.memcached != "" {
		need(total.casStored, "a cas that stored")
		need(total.casMismatch, "a cas that met another version")
	}
	if s.target.resp != "" {
		need(total.expired, "a key that expired")
		need(total.mustHaveExpired, "a read after an expiry was due")
		need(total.oldValues, "an old value returned by SET GET")
	}
	if s.evicting && s.target.resp != "" {
		need(evictions(s.target.resp), "an eviction")
	}
	if total.refused*20 > total.operations {
		missing = append(missing, "memory for writes: over 5% were refused")
	}
	if len(missing) == 0 {
		return 0
	}
	fmt.Printf("the run tested too little; missing: %s\n", strings.Join(missing, "; "))
	return 3
}

// evictions asks the server how many keys it evicted.
func evictions(address string) int {
	info, err := ask(address, "INFO", "stats")
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(info, "\r\n") {
		if strings.HasPrefix(line, "evicted_keys:") {
			count, _ := parseInt(strings.TrimPrefix(line, "evicted_keys:"))
			return int(count)
		}
	}
	return 0
}
