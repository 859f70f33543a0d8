package main

import (
	"bytes"
	"net"
	"slices"
	"strconv"
)

// firstBuffer is what a connection begins with; a larger request makes it grow.
const firstBuffer = 4 << 10

// serve answers until the listener is closed. Each connection has a goroutine and buffers of its own, which it uses
// again and again: a request allocates nothing, so that the collector has no more to do than states give it.
func serve(listener net.Listener, store store) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go (&connection{store: store}).talk(conn)
	}
}

type connection struct {
	store  store
	out    []byte
	states []state
	users  []uint64
}

// talk reads requests and answers those that are whole with one write, in order.
func (c *connection) talk(conn net.Conn) {
	// The client may have closed it already.
	defer conn.Close()
	in := make([]byte, 0, firstBuffer)
	for {
		if len(in) == cap(in) {
			in = slices.Grow(in, len(in))
		}
		n, err := conn.Read(in[len(in):cap(in)])
		if err != nil {
			return
		}
		in = in[:len(in)+n]
		used, last := c.answerAll(in)
		if len(c.out) > 0 {
			if _, err := conn.Write(c.out); err != nil {
				return
			}
		}
		if last {
			return
		}
		in = in[:copy(in, in[used:])]
	}
}

// answerAll answers the whole requests of input into c.out; it returns how much they were, and whether the
// connection ends with them.
func (c *connection) answerAll(input []byte) (used int, last bool) {
	c.out = c.out[:0]
	for !last {
		found, length, err := parseRequest(input[used:])
		if err != nil {
			c.refuse("400 Bad Request")
			return used, true
		}
		if length == 0 {
			break
		}
		used += length
		last = found.last
		c.answer(found)
	}
	return used, last
}

func (c *connection) refuse(status string) {
	c.out = appendAnswer(c.out, status, textType, func(out []byte) []byte { return append(out, status...) })
}

func (c *connection) answer(found request) {
	path, ofUser := bytes.CutPrefix(found.path, []byte("/v1/users/"))
	get, post := string(found.method) == "GET", string(found.method) == "POST"
	switch {
	case ofUser:
		c.answerUser(get, post, path, found.body)
	case post && string(found.path) == "/v1/batch":
		c.batch(found.body)
	case post && string(found.path) == "/v1/mentions":
		c.mentions(found.body)
	case get && string(found.path) == "/metrics":
		c.out = appendAnswer(c.out, "200 OK", textType, func(out []byte) []byte { return appendMetrics(out, c.store) })
	case get && (string(found.path) == "/readyz" || string(found.path) == "/livez"):
		c.refuse("200 OK")
	default:
		c.refuse("404 Not Found")
	}
}

// answerUser has the path from the user's number on.
func (c *connection) answerUser(get, post bool, path, body []byte) {
	user, path, ok := cutNumber(path)
	path, of := bytes.CutPrefix(path, []byte("/read-states"))
	if !ok || !of {
		c.refuse("404 Not Found")
		return
	}
	if get && len(path) == 0 {
		var version uint64
		version, c.states = c.store.read(user, c.states[:0])
		c.out = appendAnswer(c.out, "200 OK", jsonType, func(out []byte) []byte {
			return appendStates(out, user, version, c.states)
		})
		return
	}
	path, below := bytes.CutPrefix(path, []byte("/"))
	channel, rest, ok := cutNumber(path)
	if !post || !below || !ok || string(rest) != "/ack" {
		c.refuse("404 Not Found")
		return
	}
	message := uint64(0)
	sound := object(body, func(name []byte, number uint64) bool {
		message = number
		return string(name) == "message_id"
	})
	if !sound || message == 0 {
		c.refuse("400 Bad Request")
		return
	}
	version, now, applied := c.store.ack(user, channel, message)
	c.out = appendAnswer(c.out, "200 OK", jsonType, func(out []byte) []byte {
		return appendAck(out, applied, version, now)
	})
}

func (c *connection) mentions(body []byte) {
	c.users = c.users[:0]
	channel, message, count := uint64(0), uint64(0), uint64(1)
	sound := object(body, func(name []byte, number uint64) bool {
		switch string(name) {
		case "channel_id":
			channel = number
		case "message_id":
			message = number
		case "user_ids":
			c.users = append(c.users, number)
			return number > 0
		case "count":
			count = number
		default:
			return false
		}
		return number > 0
	})
	if !sound || channel == 0 || message == 0 || len(c.users) == 0 || count > 1<<32-1 {
		c.refuse("400 Bad Request")
		return
	}
	applied := 0
	for _, user := range c.users {
		if c.store.mention(user, channel, message, uint32(count)) {
			applied++
		}
	}
	c.out = appendAnswer(c.out, "200 OK", jsonType, func(out []byte) []byte {
		out = append(out, `{"applied":`...)
		out = strconv.AppendInt(out, int64(applied), 10)
		out = append(out, `,"ignored":`...)
		out = strconv.AppendInt(out, int64(len(c.users)-applied), 10)
		return append(out, `,"failed":[]}`...)
	})
}

func (c *connection) batch(body []byte) {
	records := frameRecords(body)
	if records == nil {
		c.refuse("400 Bad Request")
		return
	}
	c.out = appendAnswer(c.out, "200 OK", batchType, func(out []byte) []byte {
		return appendOutcomes(out, c.store, records)
	})
}
