// Starts the page at /docs. URLs are relative to the page, so that it works under any prefix. No external validator is used.
window.onload = () => {
  window.ui = SwaggerUIBundle({
    url: "../openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    layout: "StandaloneLayout",
    validatorUrl: "none",
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [SwaggerUIBundle.plugins.DownloadUrl],
    // The Model Context Protocol requires both media types, but the page sends only the selected one.
    requestInterceptor: (request) => {
      if (request.method === "POST" && new URL(request.url, document.baseURI).pathname.endsWith("/mcp")) {
        request.headers.accept = "application/json, text/event-stream";
      }
      return request;
    },
  });
};
