module readstates.dev/generated-client

go 1.26.0
