// A round with the client that openapi-generator makes for Go: the requests of ../README.md, and a line for each answer.
package main

import (
	"context"
	"errors"
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

func must[T any](body *T, err error) *T {
	if err != nil {
		panic(err)
	}
	return body
}

// refused gives the problem that a request was refused with.
func refused(err error) api.Problem {
	var refusal *api.GenericOpenAPIError
	if !errors.As(err, &refusal) {
		panic(fmt.Sprintf("it was not refused: %v", err))
	}
	return refusal.Model().(api.Problem)
}

func shown(state api.ReadState) string {
	lastRead, pin := "none", "none"
	if value := state.LastMessageId.Get(); value != nil {
		lastRead = *value
	}
	if value := state.LastPinTimestamp.Get(); value != nil {
		pin = fmt.Sprint(value.UnixMilli())
	}
	return fmt.Sprintf("channel=%s last=%s mentions=%d flags=%d viewed=%d pin=%s",
		state.ChannelId, lastRead, state.MentionCount, state.Flags, state.LastViewed, pin)
}

func main() {
	ctx, user := context.Background(), os.Args[2]
	settings := api.NewConfiguration()
	settings.Servers = api.ServerConfigurations{{URL: os.Args[1]}}
	client := api.NewAPIClient(settings)
	states, mentions := client.ReadStatesAPI, client.MentionsAPI

	request := api.NewAckRequest("1")
	request.SetManual(true)
	request.SetMentionCount(most)
	request.SetFlags(most)
	request.SetLastViewed(65535)
	acknowledged, _, err := states.AckReadState(ctx, user, channel).AckRequest(*request).Execute()
	must(acknowledged, err)
	fmt.Printf("ack applied=%t %s\n", acknowledged.Applied, shown(acknowledged.ReadState))

	mention := func(channel, message string, count int64) (*api.MentionsAnswer, error) {
		request := api.NewMentionsRequest(channel, message, []string{user})
		request.SetCount(count)
		answer, _, err := mentions.Mention(ctx).MentionsRequest(*request).Execute()
		return answer, err
	}
	mentioned := must(mention(channel, beforeLast, most))
	fmt.Printf("mention applied=%d ignored=%d failed=%d\n", mentioned.Applied, mentioned.Ignored, len(mentioned.Failed))

	got, _, err := states.GetReadState(ctx, user, channel).Execute()
	fmt.Printf("get %s\n", shown(*must(got, err)))

	pin := api.NewPinsAckRequest(time.UnixMilli(1767323045678).UTC())
	pinned, _, err := states.AckPins(ctx, user, channel).PinsAckRequest(*pin).Execute()
	must(pinned, err)
	fmt.Printf("pin applied=%t %s\n", pinned.Applied, shown(pinned.ReadState))

	items := api.NewAckBulkRequest([]api.AckBulkItem{*api.NewAckBulkItem(last, last), *api.NewAckBulkItem(channel, last)})
	bulk, _, err := states.AckReadStates(ctx, user).AckBulkRequest(*items).Execute()
	var results []string
	for _, result := range must(bulk, err).Results {
		results = append(results, fmt.Sprintf("%s=%t", result.ChannelId, result.Applied))
	}
	fmt.Printf("bulk %s\n", strings.Join(results, " "))

	must(mention("5", "6", most))
	list, _, err := states.ListReadStates(ctx, user).Execute()
	must(list, err)
	fmt.Printf("list partial=%t user=%t\n", list.Partial, list.UserId == user)
	for _, state := range list.ReadStates {
		fmt.Printf("list %s\n", shown(state))
	}

	summary, _, err := states.GetSummary(ctx, user).Execute()
	must(summary, err)
	fmt.Printf("summary mentions=%d channels=%d\n", summary.MentionCount, summary.ChannelsWithMentions)

	_, _, err = states.GetReadState(ctx, user, "4").Execute()
	problem := refused(err)
	fmt.Printf("absent status=%d type=%s\n", problem.Status, problem.Type)
	_, err = mention("5", "7", 0)
	problem = refused(err)
	fmt.Printf("zero status=%d pointer=%s\n", problem.Status, problem.GetPointer())

	deleted, _, err := states.DeleteReadState(ctx, user, channel).Execute()
	must(deleted, err)
	since, _, err := states.ListReadStates(ctx, user).Since(list.Version).Execute()
	must(since, err)
	fmt.Printf("delete applied=%t partial=%t deleted=%s\n", deleted.Applied, since.Partial, strings.Join(since.Deleted, " "))
}
