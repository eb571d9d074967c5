// A tool over HTTP without dependencies. Register it with weather_tool.json; it listens on 127.0.0.1:9000.
import { createServer } from "node:http";

const weather = { Paris: [18, "cloudy"], Oslo: [7, "rain"], 北京: [23, "clear"] };

function run({ city }) {
  if (!Object.hasOwn(weather, city)) {
    return { error: `no weather for ${city}; known are ${Object.keys(weather).join(", ")}` }; // the model reads this
  }
  const [celsius, sky] = weather[city];
  return { output: `${city}: ${celsius} °C, ${sky}`, structured: { celsius, sky } };
}

createServer(async (request, response) => {
  const chunks = await request.toArray();
  const call = JSON.parse(Buffer.concat(chunks)); // its arguments are already validated against the schema of the tool
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify(run(call.arguments)));
}).listen(9000, "127.0.0.1");
