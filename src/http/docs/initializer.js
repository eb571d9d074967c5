// Starts the page at /docs. Addresses are relative to the page, so that it works under any prefix; no validator is asked.
window.onload = () => {
  window.ui = SwaggerUIBundle({
    url: "../openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    layout: "StandaloneLayout",
    validatorUrl: "none",
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [SwaggerUIBundle.plugins.DownloadUrl],
    // The Model Context Protocol needs both media types; the page would send the chosen one only.
    requestInterceptor: (request) => {
      if (request.method === "POST" && new URL(request.url, document.baseURI).pathname.endsWith("/mcp")) {
        request.headers.accept = "application/json, text/event-stream";
      }
      return request;
    },
  });
};
