// A round with the client that oapi-codegen makes: the requests of ../README.md, and a line for each answer.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	api "readstates.dev/generated-client/generated"
)

const (
	channel    = "9223372036854775808"
	last       = "18446744073709551615"
	beforeLast = "18446744073709551614"
	most       = int64(4294967295)
)

// must gives the body of a success.
func must[T any](body *T, raw []byte, err error) *T {
	if err != nil {
		panic(err)
	}
	if body == nil {
		panic(fmt.Sprintf("refused: %s", raw))
	}
	return body
}

func shown(state api.ReadState) string {
	lastRead, pin := "none", "none"
	if state.LastMessageId != nil {
		lastRead = *state.LastMessageId
	}
	if state.LastPinTimestamp != nil {
		pin = fmt.Sprint(state.LastPinTimestamp.UnixMilli())
	}
	return fmt.Sprintf("channel=%s last=%s mentions=%d flags=%d viewed=%d pin=%s",
		state.ChannelId, lastRead, state.MentionCount, state.Flags, state.LastViewed, pin)
}

func ptr[T any](value T) *T { return &value }

func main() {
	ctx, user := context.Background(), os.Args[2]
	client, err := api.NewClientWithResponses(os.Args[1])
	if err != nil {
		panic(err)
	}

	ack, err := client.AckReadStateWithResponse(ctx, user, channel, nil, api.AckRequest{
		MessageId: "1", Manual: ptr(true), MentionCount: ptr(most), Flags: ptr(most), LastViewed: ptr(int32(65535))})
	acknowledged := must(ack.JSON200, ack.Body, err)
	fmt.Printf("ack applied=%t %s\n", acknowledged.Applied, shown(acknowledged.ReadState))

	mention := func(channel, message string, count int64) *api.MentionResponse {
		answer, err := client.MentionWithResponse(ctx, nil, api.MentionsRequest{
			ChannelId: channel, MessageId: message, UserIds: []api.Id{user}, Count: &count})
		if err != nil {
			panic(err)
		}
		return answer
	}
	answer := mention(channel, beforeLast, most)
	mentioned := must(answer.JSON200, answer.Body, nil)
	fmt.Printf("mention applied=%d ignored=%d failed=%d\n", mentioned.Applied, mentioned.Ignored, len(mentioned.Failed))

	got, err := client.GetReadStateWithResponse(ctx, user, channel)
	fmt.Printf("get %s\n", shown(*must(got.JSON200, got.Body, err)))

	pins, err := client.AckPinsWithResponse(ctx, user, channel, nil, api.PinsAckRequest{
		LastPinTimestamp: time.UnixMilli(1767323045678).UTC()})
	pinned := must(pins.JSON200, pins.Body, err)
	fmt.Printf("pin applied=%t %s\n", pinned.Applied, shown(pinned.ReadState))

	bulk, err := client.AckReadStatesWithResponse(ctx, user, nil, api.AckBulkRequest{ReadStates: []api.AckBulkItem{
		{ChannelId: last, MessageId: last}, {ChannelId: channel, MessageId: last}}})
	var results []string
	for _, result := range must(bulk.JSON200, bulk.Body, err).Results {
		results = append(results, fmt.Sprintf("%s=%t", result.ChannelId, result.Applied))
	}
	fmt.Printf("bulk %s\n", strings.Join(results, " "))

	answer = mention("5", "6", most)
	must(answer.JSON200, answer.Body, nil)
	listed, err := client.ListReadStatesWithResponse(ctx, user, nil)
	list := must(listed.JSON200, listed.Body, err)
	fmt.Printf("list partial=%t user=%t\n", list.Partial, list.UserId == user)
	for _, state := range list.ReadStates {
		fmt.Printf("list %s\n", shown(state))
	}

	sum, err := client.GetSummaryWithResponse(ctx, user)
	summary := must(sum.JSON200, sum.Body, err)
	fmt.Printf("summary mentions=%d channels=%d\n", summary.MentionCount, summary.ChannelsWithMentions)

	absent, err := client.GetReadStateWithResponse(ctx, user, "4")
	problem := must(absent.ApplicationproblemJSON404, absent.Body, err)
	fmt.Printf("absent status=%d type=%s\n", problem.Status, problem.Type)
	zero := mention("5", "7", 0)
	problem = must(zero.ApplicationproblemJSON4XX, zero.Body, nil)
	fmt.Printf("zero status=%d pointer=%s\n", problem.Status, *problem.Pointer)

	gone, err := client.DeleteReadStateWithResponse(ctx, user, channel, nil)
	deleted := must(gone.JSON200, gone.Body, err)
	newer, err := client.ListReadStatesWithResponse(ctx, user, &api.ListReadStatesParams{Since: &list.Version})
	since := must(newer.JSON200, newer.Body, err)
	fmt.Printf("delete applied=%t partial=%t deleted=%s\n", deleted.Applied, since.Partial, strings.Join(*since.Deleted, " "))
}
