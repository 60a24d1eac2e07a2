"""The builder of the site: set-up, runtime, pages, server, measurements. Host only."""
