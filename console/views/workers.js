// @ts-check
// Workers and the queues from which they fetch their calls.
import { ago, api, count, duration, html, keyed, loaded, path, Resource, table } from "../components/parts.js";

export class WorkersPanel {
  resource = new Resource(() => /** @type {Promise<Api.Workers>} */ (api.get(["workers"])));

  render() {
    return html`<section class="card"><h2>Workers</h2>${loaded(this.resource, lists)}</section>`;
  }
}

/** @param {Api.Workers} lists */
function lists({ queues, workers }) {
  if (!queues.length) return html`<p class="muted">None. A tool with the executor <code>worker</code> is run by a program that fetches its calls, for example <code>python -m toolpost serve module:tools</code>.</p>`;
  return html`${table("Queues", "Queue|>Workers|>Waiting|>Running|Oldest waits for", queues.map((one) => keyed(one.queue, queue(one, workers))))}
    ${workers.length ? table("Workers", "Worker|Queue|Tools|>Running|Last seen|Client", workers.map((one) => keyed(`${one.queue} ${one.worker}`, worker(one)))) : null}`;
}

/** @type {(queue: Api.WorkerQueue, workers: Api.Worker[]) => any} */
function queue({ queue, waiting, running, oldest_ms: oldest }, workers) {
  const own = workers.filter((worker) => worker.queue === queue).length;
  return html`<tr><th scope="row">${queue}</th><td class="num right">${count(own)}</td><td class="num right">${count(waiting)}</td><td class="num right">${count(running)}</td>
    <td>${oldest === null || oldest === undefined ? "–" : html`<span class=${own ? "" : "bad"}>${duration(oldest)}${own ? "" : ", and no worker asks for it"}</span>`}</td></tr>`;
}

/** @param {Api.Worker} worker */
const worker = ({ worker, queue, tools, running, last_seen_at, sdk }) =>
  html`<tr><th scope="row">${worker}</th><td>${queue}</td><td>${tools.map((tool) => html`<a href=${path("tools", tool)}>${tool}</a> `)}</td><td class="num right">${count(running)}</td><td>${ago(last_seen_at)}</td><td>${sdk ?? ""}</td></tr>`;
