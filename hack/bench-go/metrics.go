package main

import (
	"runtime/metrics"
	"strconv"
)

// appendMetrics appends, as Prometheus reads them: what the store holds, and what the collector has done.
func appendMetrics(out []byte, store store) []byte {
	samples := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
	}
	metrics.Read(samples)
	held := store.totals()
	for _, line := range []struct {
		name  string
		value float64
	}{
		{"readstates_users", float64(held.users)},
		{"readstates_states", float64(held.states)},
		{"readstates_evicted_total", float64(held.evicted)},
		{"go_gc_cycles_total", float64(samples[0].Value.Uint64())},
		{"go_heap_live_bytes", float64(samples[1].Value.Uint64())},
		{"go_heap_objects_bytes", float64(samples[2].Value.Uint64())},
		{"go_gc_cpu_seconds_total", samples[3].Value.Float64()},
	} {
		out = append(out, line.name...)
		out = append(out, ' ')
		out = strconv.AppendFloat(out, line.value, 'f', -1, 64)
		out = append(out, '\n')
	}
	return out
}
