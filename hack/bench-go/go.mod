module readstates.dev/bench-go

go 1.26.0
