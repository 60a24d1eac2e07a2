"""What pages and workers may load: the site's own files, and WebAssembly."""

# In a <meta> tag of every page, which works on any host but doesn't reach the workers.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",  # no frames, plugins, fonts, media
        "script-src 'self' 'wasm-unsafe-eval'",
        "worker-src 'self'",
        # Bokeh and CodeMirror insert <style> elements, with texts that only they know.
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'self'",
        "form-action 'none'",
        # Not require-trusted-types-for: Bokeh sets innerHTML, and worker URLs are strings.
    )
)

# In a header of every answer: a worker obeys the one of its script, a page obeys both policies.
# Panel makes a function from a string when Python imports it, and cells may use Pyodide's run_js.
HEADER_POLICY = CONTENT_SECURITY_POLICY.replace("'wasm-unsafe-eval'", "'unsafe-eval'")
