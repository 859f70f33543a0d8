// A round with the client that openapi-generator makes for Java: the requests of ../README.md, and a line for each answer.
import generated.ApiClient;
import generated.ApiException;
import generated.api.MentionsApi;
import generated.api.ReadStatesApi;
import generated.model.*;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.stream.Collectors;

public final class Round {
    private static final String CHANNEL = "9223372036854775808";
    private static final String LAST = "18446744073709551615";
    private static final String BEFORE_LAST = "18446744073709551614";
    private static final long MOST = 4294967295L;

    private static String shown(ReadState state) {
        Object pin = state.getLastPinTimestamp() == null ? "none" : state.getLastPinTimestamp().toInstant().toEpochMilli();
        String last = state.getLastMessageId() == null ? "none" : state.getLastMessageId();
        return String.format("channel=%s last=%s mentions=%d flags=%d viewed=%d pin=%s",
            state.getChannelId(), last, state.getMentionCount(), state.getFlags(), state.getLastViewed(), pin);
    }

    private interface Request {
        void send() throws ApiException;
    }

    private static Problem refused(Request request) throws Exception {
        try {
            request.send();
        } catch (ApiException refusal) {
            return ApiClient.createDefaultObjectMapper().readValue(refusal.getResponseBody(), Problem.class);
        }
        throw new IllegalStateException("it was not refused");
    }

    public static void main(String[] arguments) throws Exception {
        ApiClient client = new ApiClient();
        client.updateBaseUri(arguments[0]);
        String user = arguments[1];
        ReadStatesApi states = new ReadStatesApi(client);
        MentionsApi mentions = new MentionsApi(client);

        AckRequest ack = new AckRequest().messageId("1").manual(true).mentionCount(MOST).flags(MOST).lastViewed(65535);
        AckAnswer acknowledged = states.ackReadState(user, CHANNEL, ack, null);
        System.out.printf("ack applied=%b %s%n", acknowledged.getApplied(), shown(acknowledged.getReadState()));

        MentionsRequest mention = new MentionsRequest().channelId(CHANNEL).messageId(BEFORE_LAST).userIds(List.of(user)).count(MOST);
        MentionsAnswer mentioned = mentions.mention(mention, null);
        System.out.printf("mention applied=%d ignored=%d failed=%d%n", mentioned.getApplied(), mentioned.getIgnored(), mentioned.getFailed().size());
        System.out.printf("get %s%n", shown(states.getReadState(user, CHANNEL)));

        PinsAckRequest pin = new PinsAckRequest().lastPinTimestamp(OffsetDateTime.parse("2026-01-02T03:04:05.678Z"));
        AckAnswer pinned = states.ackPins(user, CHANNEL, pin, null);
        System.out.printf("pin applied=%b %s%n", pinned.getApplied(), shown(pinned.getReadState()));

        List<AckBulkItem> items = List.of(
            new AckBulkItem().channelId(LAST).messageId(LAST), new AckBulkItem().channelId(CHANNEL).messageId(LAST));
        AckBulkAnswer bulk = states.ackReadStates(user, new AckBulkRequest().readStates(items), null);
        System.out.printf("bulk %s%n", bulk.getResults().stream()
            .map(result -> result.getChannelId() + "=" + result.getApplied()).collect(Collectors.joining(" ")));

        mentions.mention(new MentionsRequest().channelId("5").messageId("6").userIds(List.of(user)).count(MOST), null);
        ReadStates list = states.listReadStates(user, null, null, null, null);
        System.out.printf("list partial=%b user=%b%n", list.getPartial(), list.getUserId().equals(user));
        list.getReadStates().forEach(state -> System.out.printf("list %s%n", shown(state)));

        Summary summary = states.getSummary(user);
        System.out.printf("summary mentions=%d channels=%d%n", summary.getMentionCount(), summary.getChannelsWithMentions());

        Problem absent = refused(() -> states.getReadState(user, "4"));
        System.out.printf("absent status=%d type=%s%n", absent.getStatus(), absent.getType());
        MentionsRequest zero = new MentionsRequest().channelId("5").messageId("7").userIds(List.of(user)).count(0L);
        Problem wrong = refused(() -> mentions.mention(zero, null));
        System.out.printf("zero status=%d pointer=%s%n", wrong.getStatus(), wrong.getPointer());

        DeleteAnswer deleted = states.deleteReadState(user, CHANNEL, null);
        ReadStates since = states.listReadStates(user, list.getVersion(), null, null, null);
        System.out.printf("delete applied=%b partial=%b deleted=%s%n",
            deleted.getApplied(), since.getPartial(), String.join(" ", since.getDeleted()));
    }
}
