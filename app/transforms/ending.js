
// A form's fields may come as lists, and what Slack's buttons say is JSON in a field of a form.
function $payload(evt) {
  const fields = Object.fromEntries(
    Object.entries(evt).map(([name, value]) => [name, Array.isArray(value) && value.length === 1 && typeof value[0] === "string" ? value[0] : value]),
  );
  if (typeof fields.payload === "string") return JSON.parse(fields.payload);
  return fields.command && !evt.type ? fields : evt;
}

function transform(evt, headers = {}, queryParams = {}, raw = "") {
  const form = raw.startsWith("payload=") ? { payload: decodeURIComponent(raw.slice(8).replaceAll("+", " ")) } : evt;
  const event = mapped($wire($payload(form)));
  if (event === null) return { name: "agent.input.ignored", data: {} };
  const data = $wire(event);
  const name = event.$kind === "CommandReceived" ? "agent.command.received" : "agent.message.received";
  return { name, id: message_event_id(data.messageKey, data.edited ? `edit-${data.edited}` : "first"), data };
}
