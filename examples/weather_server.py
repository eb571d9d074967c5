#!/usr/bin/env python3
"""A tool over HTTP with the standard library only. Register it with weather_tool.json; it listens on 127.0.0.1:9000."""
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WEATHER = {"Paris": (18, "cloudy"), "Oslo": (7, "rain"), "北京": (23, "clear")}


class Tool(BaseHTTPRequestHandler):
    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["content-length"])))
        city = call["arguments"]["city"]  # already checked against the tool's schema
        if city in WEATHER:
            degrees, sky = WEATHER[city]
            answer = {"output": f"{city}: {degrees} °C, {sky}", "structured": {"celsius": degrees, "sky": sky}}
        else:
            answer = {"error": f"no weather for {city}; known are {', '.join(WEATHER)}"}  # the model reads this
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 9000), Tool)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
