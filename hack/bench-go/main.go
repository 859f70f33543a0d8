// Command bench-go serves read states from memory, as hack/bench wants it to be compared with Readstates: the same
// requests over HTTP and the same answers, in Go.
//
//	bench-go --listen ADDRESS --layout list|flat --capacity-states N
//
// list is a map and a container/list of pointers, as Discord's service of 2020 was; run it with GOGC=100, which is
// Go's own setting. flat has no pointers, and so next to nothing for the collector to look at; run it with GOGC=off
// and GOMEMLIMIT, as the guide to Go's collector says for a program that has its machine for itself
// (https://go.dev/doc/gc-guide#Memory_limit): then only the collection that is forced every two minutes remains.
//
// HTTP is read and written by hand, for net/http would cost several times what the store does, and the comparison is
// of stores. Served are acknowledgements (without manual), mentions, batches, all states of a user, /readyz and
// /metrics. There is no database, no ring, and nothing that must outlive the process.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:7400", "where to listen")
	layout := flag.String("layout", "", "list or flat")
	capacity := flag.Int("capacity-states", 20_000_000, "states to hold; those seen least recently are forgotten")
	flag.Parse()
	if err := run(*listen, *layout, *capacity); err != nil {
		fmt.Fprintln(os.Stderr, "bench-go:", err)
		os.Exit(1)
	}
}

func run(listen, layout string, capacity int) error {
	store, err := newStore(layout, capacity)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("failed to listen: %w", err)
	}
	return serve(listener, store)
}

func newStore(layout string, capacity int) (store, error) {
	switch {
	case capacity < 1:
		return nil, fmt.Errorf("--capacity-states %d: give at least 1", capacity)
	case layout == "list":
		return newListStore(capacity), nil
	case layout == "flat":
		return newFlatStore(capacity), nil
	}
	return nil, fmt.Errorf("--layout %q: give list or flat", layout)
}
