package main

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// start serves a store of this layout until the test ends, and returns its URL.
func start(t *testing.T, layout string) string {
	store, err := newStore(layout, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go serve(listener, store)
	return "http://" + listener.Addr().String()
}

func call(t *testing.T, method, url, body string) (status int, answer string) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	bytes, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(bytes)
}

func TestAnswersAreThoseOfTheAPI(t *testing.T) {
	for _, layout := range []string{"list", "flat"} {
		url := start(t, layout)
		const state = `{"channel_id":"7","last_message_id":"9","mention_count":0,"flags":0,"last_viewed":0,"last_pin_timestamp":null,"version":"1"}`
		const mentioned = `{"channel_id":"3","last_message_id":null,"mention_count":2,"flags":0,"last_viewed":0,"last_pin_timestamp":null,"version":"2"}`
		for _, step := range []struct{ method, path, body, answer string }{
			{"GET", "/readyz", "", "200 OK"},
			{"POST", "/v1/users/5/read-states/7/ack", `{"message_id":"9"}`, `{"applied":true,"version":"1","read_state":` + state + `}`},
			{"POST", "/v1/users/5/read-states/7/ack", `{ "message_id" : 8 }`, `{"applied":false,"version":"1","read_state":` + state + `}`},
			{"POST", "/v1/mentions", `{"channel_id":"3","message_id":"4","user_ids":["5","6"],"count":2}`, `{"applied":2,"ignored":0,"failed":[]}`},
			{"POST", "/v1/mentions", `{"channel_id":"3","message_id":"4","user_ids":["5"]}`, `{"applied":0,"ignored":1,"failed":[]}`},
			{"GET", "/v1/users/5/read-states", "", `{"user_id":"5","version":"2","partial":false,"read_states":[` + mentioned + "," + state + `]}`},
			{"GET", "/v1/users/999/read-states", "", `{"user_id":"999","version":"0","partial":false,"read_states":[]}`},
		} {
			status, answer := call(t, step.method, url+step.path, step.body)
			if status != 200 || answer != step.answer {
				t.Errorf("%s: %s %s: %d %s, not %s", layout, step.method, step.path, status, answer, step.answer)
			}
			if strings.HasPrefix(answer, "{") && !json.Valid([]byte(answer)) {
				t.Errorf("no JSON: %s", answer)
			}
		}
	}
}

func TestWhatIsNotServedIsRefused(t *testing.T) {
	url := start(t, "flat")
	for _, step := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/", "", 404},
		{"GET", "/v1/users/0/read-states", "", 404},
		{"GET", "/v1/users/x/read-states", "", 404},
		{"GET", "/v1/users/1", "", 404},
		{"DELETE", "/v1/users/1/read-states", "", 404},
		{"POST", "/v1/users/1/read-states/0/ack", `{"message_id":"1"}`, 404},
		{"POST", "/v1/users/1/read-states/2/ack", ``, 400},
		{"POST", "/v1/users/1/read-states/2/ack", `{}`, 400},
		{"POST", "/v1/users/1/read-states/2/ack", `{"message_id":"0"}`, 400},
		{"POST", "/v1/users/1/read-states/2/ack", `{"message_id":"-1"}`, 400},
		{"POST", "/v1/users/1/read-states/2/ack", `{"message_id":"18446744073709551616"}`, 400},
		{"POST", "/v1/users/1/read-states/2/ack", `{"message_id":"1","manual":true}`, 400},
		{"POST", "/v1/users/1/read-states/2/ack", `{"message_id":"1"} x`, 400},
		{"POST", "/v1/mentions", `{"channel_id":"1","message_id":"1","user_ids":[]}`, 400},
		{"POST", "/v1/mentions", `{"channel_id":"1","message_id":"1","user_ids":["1"],"count":4294967296}`, 400},
		{"POST", "/v1/batch", "RSB1", 400},
	} {
		if status, _ := call(t, step.method, url+step.path, step.body); status != step.status {
			t.Errorf("%s %s %s: %d, not %d", step.method, step.path, step.body, status, step.status)
		}
	}
}

// frame is a batch of these records: operation, argument, user, channel, message.
func frame(records ...[5]uint64) []byte {
	out := []byte("RSB1\x01\x00\x00\x00")
	out = binary.LittleEndian.AppendUint32(out, uint32(len(records)))
	out = append(out, 0, 0, 0, 0)
	for _, record := range records {
		out = binary.LittleEndian.AppendUint32(out, uint32(record[0]))
		out = binary.LittleEndian.AppendUint32(out, uint32(record[1]))
		for _, id := range record[2:] {
			out = binary.LittleEndian.AppendUint64(out, id)
		}
	}
	return out
}

func TestABadRecordSpoilsNoOther(t *testing.T) {
	url := start(t, "list")
	body := frame(
		[5]uint64{opAck, 0, 1, 2, 3}, [5]uint64{opAck, 0, 1, 2, 3}, [5]uint64{opMention, 4, 1, 2, 5},
		[5]uint64{opMention, 0, 1, 2, 6}, [5]uint64{opAck, 1, 1, 2, 6}, [5]uint64{9, 0, 1, 2, 6}, [5]uint64{opAck, 0, 0, 2, 6},
		[5]uint64{opAck, 0, 1, 3, 6},
	)
	status, answer := call(t, "POST", url+"/v1/batch", string(body))
	want := "RSR1\x01\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x02\x02\x02\x02\x00"
	if status != 200 || answer != want {
		t.Errorf("%d %q", status, answer)
	}
}

func TestRequestsThatComeInPiecesAndTogetherAreAnsweredInOrder(t *testing.T) {
	url := start(t, "flat")
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ack := "POST /v1/users/1/read-states/2/ack HTTP/1.1\r\nHost: x\r\nContent-Length: 0018\r\n\r\n{\"message_id\":\"3\"}"
	read := "GET /v1/users/1/read-states HTTP/1.1\r\nconnection: close\r\n\r\n"
	for _, piece := range []string{ack[:10], ack[10:90], ack[90:] + ack + read} {
		if _, err := conn.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	answers, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	first := strings.Index(string(answers), `"applied":true`)
	second := strings.Index(string(answers), `"applied":false`)
	third := strings.Index(string(answers), `"read_states":[{`)
	if first < 0 || second < first || third < second {
		t.Errorf("%s", answers)
	}
}

func TestALargeBatchGrowsTheBufferAndOneTooLargeIsRefused(t *testing.T) {
	url := start(t, "flat")
	records := make([][5]uint64, mostRecords)
	for i := range records {
		records[i] = [5]uint64{opAck, 0, uint64(1 + i), 1, 1}
	}
	if status, answer := call(t, "POST", url+"/v1/batch", string(frame(records...))); status != 200 || len(answer) != headerBytes+mostRecords {
		t.Errorf("%d, %d bytes", status, len(answer))
	}
	head := "POST /v1/batch HTTP/1.1\r\ncontent-length: 4194305\r\n\r\n"
	if _, _, err := parseRequest([]byte(head)); err == nil {
		t.Error("a body of more than 4 MiB is waited for")
	}
	if _, _, err := parseRequest(make([]byte, mostHead)); err == nil {
		t.Error("a head without an end is waited for")
	}
}

// A collector that has nothing to collect runs only when it is forced: this is what hack/bench compares.
func TestRequestsAllocateNothing(t *testing.T) {
	for _, layout := range []string{"list", "flat"} {
		store, err := newStore(layout, 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		talk := connection{store: store}
		message := uint64(0)
		batch := append([]byte("POST /v1/batch HTTP/1.1\r\ncontent-length: 48\r\n\r\n"), frame([5]uint64{opAck, 0, 1, 2, 1})...)
		ack := []byte("POST /v1/users/1/read-states/2/ack HTTP/1.1\r\ncontent-length: 19\r\n\r\n{\"message_id\":\"99\"}")
		read := []byte("GET /v1/users/1/read-states HTTP/1.1\r\nhost: x\r\n\r\n")
		requests := func() {
			message++
			binary.LittleEndian.PutUint64(batch[len(batch)-8:], message)
			for _, request := range [][]byte{batch, ack, read} {
				if used, last := talk.answerAll(request); used != len(request) || last {
					t.Fatalf("%s: %s", layout, talk.out)
				}
			}
		}
		if allocated := testing.AllocsPerRun(1000, requests); allocated != 0 {
			t.Errorf("%s: %v allocations", layout, allocated)
		}
	}
}

func TestMetricsTellWhatIsHeld(t *testing.T) {
	url := start(t, "list")
	call(t, "POST", url+"/v1/users/1/read-states/2/ack", `{"message_id":"3"}`)
	_, metrics := call(t, "GET", url+"/metrics", "")
	for _, line := range []string{"readstates_users 1\n", "readstates_states 1\n", "readstates_evicted_total 0\n", "go_gc_cycles_total "} {
		if !strings.Contains(metrics, line) {
			t.Errorf("%q is not in %s", line, metrics)
		}
	}
}

func TestLayoutsThatAreNoneAreRefused(t *testing.T) {
	if _, err := newStore("tree", 1); err == nil {
		t.Error("tree is taken")
	}
	if _, err := newStore("flat", 0); err == nil {
		t.Error("no room is taken")
	}
}
