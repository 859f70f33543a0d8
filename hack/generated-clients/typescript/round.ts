// A round with the client that openapi-typescript and openapi-fetch make: the requests of ../README.md, and a line for each
// answer.
import createClient from "openapi-fetch";
import type { components, paths } from "./generated.js";

const [baseUrl, user] = process.argv.slice(2);
if (baseUrl === undefined || user === undefined) throw new Error("usage: round URL USER");
const client = createClient<paths>({ baseUrl });
type State = components["schemas"]["ReadState"];

const channel = "9223372036854775808";
const last = "18446744073709551615";
const beforeLast = "18446744073709551614";
const ofChannel = { params: { path: { user, channel } } };
const ofUser = { params: { path: { user } } };

function given<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(`refused: ${JSON.stringify(answer.error)}`);
  return answer.data;
}

function shown(state: State): string {
  const pin = state.last_pin_timestamp == null ? "none" : Date.parse(state.last_pin_timestamp);
  const { channel_id, last_message_id, mention_count, flags, last_viewed } = state;
  return `channel=${channel_id} last=${last_message_id ?? "none"} mentions=${mention_count} flags=${flags} viewed=${last_viewed} pin=${pin}`;
}

async function get(): Promise<string> {
  return shown(given(await client.GET("/v1/users/{user}/read-states/{channel}", ofChannel)));
}

const acknowledged = given(
  await client.POST("/v1/users/{user}/read-states/{channel}/ack", {
    ...ofChannel,
    body: { message_id: "1", manual: true, mention_count: 4294967295, flags: 4294967295, last_viewed: 65535 },
  }),
);
console.log(`ack applied=${acknowledged.applied} ${shown(acknowledged.read_state)}`);

async function mention(channel_id: string, message_id: string, count: number) {
  return client.POST("/v1/mentions", { body: { channel_id, message_id, user_ids: [user!], count } });
}
const mentioned = given(await mention(channel, beforeLast, 4294967295));
console.log(`mention applied=${mentioned.applied} ignored=${mentioned.ignored} failed=${mentioned.failed.length}`);
console.log(`get ${await get()}`);

const pinned = given(
  await client.POST("/v1/users/{user}/read-states/{channel}/pins/ack", {
    ...ofChannel,
    body: { last_pin_timestamp: "2026-01-02T03:04:05.678Z" },
  }),
);
console.log(`pin applied=${pinned.applied} ${shown(pinned.read_state)}`);

const many = given(
  await client.POST("/v1/users/{user}/read-states/ack-bulk", {
    ...ofUser,
    body: { read_states: [{ channel_id: last, message_id: last }, { channel_id: channel, message_id: last }] },
  }),
);
console.log(`bulk ${many.results.map((result) => `${result.channel_id}=${result.applied}`).join(" ")}`);

given(await mention("5", "6", 0xffffffff));
const list = given(await client.GET("/v1/users/{user}/read-states", ofUser));
console.log(`list partial=${list.partial} user=${list.user_id === user}`);
for (const state of list.read_states) console.log(`list ${shown(state)}`);

const summary = given(await client.GET("/v1/users/{user}/summary", ofUser));
console.log(`summary mentions=${summary.mention_count} channels=${summary.channels_with_mentions}`);

const absent = await client.GET("/v1/users/{user}/read-states/{channel}", { params: { path: { user, channel: "4" } } });
console.log(`absent status=${absent.error?.status} type=${absent.error?.type}`);
const zero = await mention("5", "7", 0);
console.log(`zero status=${zero.error?.status} pointer=${zero.error?.pointer}`);

const deleted = given(await client.DELETE("/v1/users/{user}/read-states/{channel}", ofChannel));
const since = given(
  await client.GET("/v1/users/{user}/read-states", { params: { path: { user }, query: { since: list.version } } }),
);
console.log(`delete applied=${deleted.applied} partial=${since.partial} deleted=${(since.deleted ?? []).join(" ")}`);
