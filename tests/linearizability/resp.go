package main

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
)

// respCodec speaks RESP2.
type respCodec struct{}

func appendCommand(buffer []byte, words ...string) []byte {
	buffer = append(buffer, '*')
	buffer = strconv.AppendInt(buffer, int64(len(words)), 10)
	buffer = append(buffer, "\r\n"...)
	for _, word := range words {
		buffer = append(buffer, '$')
		buffer = strconv.AppendInt(buffer, int64(len(word)), 10)
		buffer = append(buffer, "\r\n"...)
		buffer = append(buffer, word...)
		buffer = append(buffer, "\r\n"...)
	}
	return buffer
}

func (respCodec) append(buffer []byte, q *request, names []string) []byte {
	in := q.inputs[0]
	key := names[in.key]
	switch in.kind {
	case opGet:
		if len(q.inputs) == 1 {
			return appendCommand(buffer, "GET", key)
		}
		words := []string{"MGET"}
		for _, in := range q.inputs {
			words = append(words, names[in.key])
		}
		return appendCommand(buffer, words...)
	case opSet:
		if len(q.inputs) == 1 {
			return appendCommand(buffer, setWords(in, key)...)
		}
		words := []string{"MSET"}
		for _, in := range q.inputs {
			words = append(words, names[in.key], in.value)
		}
		return appendCommand(buffer, words...)
	case opDelete:
		return appendCommand(buffer, "DEL", key)
	case opGetDelete:
		return appendCommand(buffer, "GETDEL", key)
	case opIncrement:
		if in.delta == 1 {
			return appendCommand(buffer, "INCR", key)
		}
		return appendCommand(buffer, "INCRBY", key, strconv.FormatInt(in.delta, 10))
	case opAppend:
		return appendCommand(buffer, "APPEND", key, in.value)
	case opFlush:
		return appendCommand(buffer, "FLUSHALL")
	}
	panic("RESP has no " + kindNames[in.kind])
}

func setWords(in *input, key string) []string {
	words := []string{"SET", key, in.value}
	switch in.condition {
	case ifAbsent:
		words = append(words, "NX")
	case ifPresent:
		words = append(words, "XX")
	}
	if in.wantOld {
		words = append(words, "GET")
	}
	if in.keepExpiry {
		words = append(words, "KEEPTTL")
	}
	if in.expiry != 0 {
		words = append(words, "PX", strconv.FormatInt(in.expiry.Milliseconds(), 10))
	}
	return words
}

// respReply is a reply of one level: text of '+', '-', ':' or '$'; null for a missing bulk.
type respReply struct {
	kind byte
	text string
	null bool
}

func readResp(r *bufio.Reader) (respReply, error) {
	line, err := readLine(r)
	if err != nil {
		return respReply{}, err
	}
	if line == "" {
		return respReply{}, fmt.Errorf("an empty reply line")
	}
	reply := respReply{kind: line[0], text: line[1:]}
	switch reply.kind {
	case '+', '-', ':', '*':
		return reply, nil
	case '$':
		n, err := parseInt(reply.text)
		if err != nil || n < -1 || n > 1<<30 {
			return reply, fmt.Errorf("a bad length: %q", line)
		}
		if n == -1 {
			return respReply{kind: '$', null: true}, nil
		}
		reply.text, err = readBlock(r, int(n))
		return reply, err
	}
	return reply, fmt.Errorf("a bad reply: %q", line)
}

func (respCodec) read(r *bufio.Reader, q *request, _ []string) ([]*output, error) {
	reply, err := readResp(r)
	if err != nil {
		return nil, err
	}
	if reply.kind == '-' && strings.HasPrefix(reply.text, "OOM ") {
		outs := make([]*output, len(q.inputs))
		for i := range outs {
			outs[i] = &output{code: refused}
		}
		return outs, nil
	}
	if q.kind() == opGet && len(q.inputs) > 1 {
		return readArray(r, q, reply)
	}
	out, ok := decode(q.inputs[0], reply)
	if !ok {
		return nil, unexpected(q, string(reply.kind)+reply.text)
	}
	outs := []*output{out}
	for len(outs) < len(q.inputs) {
		same := *out
		outs = append(outs, &same)
	}
	return outs, nil
}

func readArray(r *bufio.Reader, q *request, head respReply) ([]*output, error) {
	if head.kind != '*' || head.text != strconv.Itoa(len(q.inputs)) {
		return nil, unexpected(q, string(head.kind)+head.text)
	}
	var outs []*output
	for range q.inputs {
		reply, err := readResp(r)
		if err != nil {
			return nil, err
		}
		if reply.kind != '$' {
			return nil, unexpected(q, string(reply.kind)+reply.text)
		}
		outs = append(outs, bulk(reply))
	}
	return outs, nil
}

func bulk(reply respReply) *output {
	if reply.null {
		return absent()
	}
	return present(reply.text)
}

func decode(in *input, reply respReply) (*output, bool) {
	switch in.kind {
	case opGet, opGetDelete:
		return bulk(reply), reply.kind == '$'
	case opSet:
		return decodeSet(in, reply)
	case opFlush:
		return &output{}, reply.kind == '+' && reply.text == "OK"
	}
	if in.kind == opIncrement && reply.kind == '-' {
		return &output{code: notInteger, sight: seenPresent},
			reply.text == "ERR value is not an integer or out of range"
	}
	number, err := parseInt(reply.text)
	if reply.kind != ':' || err != nil {
		return nil, false
	}
	out := &output{sight: seenPresent, number: number}
	switch in.kind {
	case opDelete:
		out.number = 0
		if number == 0 {
			out.sight = seenAbsent
		}
		return out, number == 0 || number == 1
	case opIncrement: // stored numbers are positive, so only an absent key gives the delta itself
		if number == in.delta {
			out.sight = seenAbsent
		}
	case opAppend: // stored values are not empty
		out.hasLen = true
		if number == int64(len(in.value)) {
			out.sight = seenAbsent
		}
	}
	return out, true
}

func decodeSet(in *input, reply respReply) (*output, bool) {
	if in.wantOld {
		if reply.kind != '$' {
			return nil, false
		}
		out := bulk(reply)
		if in.condition == ifAbsent && out.sight == seenPresent ||
			in.condition == ifPresent && out.sight == seenAbsent {
			out.code = unmet
		}
		return out, true
	}
	out := &output{}
	stored := reply.kind == '+' && reply.text == "OK"
	if !stored {
		if reply.kind != '$' || !reply.null || in.condition == always {
			return nil, false
		}
		out.code = unmet
	}
	if in.condition != always {
		out.sight = seenPresent
		if stored == (in.condition == ifAbsent) {
			out.sight = seenAbsent
		}
	}
	return out, true
}

func (respCodec) appendSet(buffer []byte, key string, value []byte) []byte {
	buffer = append(buffer, "*3\r\n$3\r\nSET\r\n$"...)
	buffer = strconv.AppendInt(buffer, int64(len(key)), 10)
	buffer = append(buffer, "\r\n"...)
	buffer = append(buffer, key...)
	buffer = append(buffer, "\r\n$"...)
	buffer = strconv.AppendInt(buffer, int64(len(value)), 10)
	buffer = append(buffer, "\r\n"...)
	buffer = append(buffer, value...)
	return append(buffer, "\r\n"...)
}

func (respCodec) appendDelete(buffer []byte, key string) []byte {
	return appendCommand(buffer, "DEL", key)
}
