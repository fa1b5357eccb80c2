"""The HTTP shell: routes, content types, watches, webhooks."""
