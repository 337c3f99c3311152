"""The Lab of studies as files for any web server: written by a command, and as zip files for download."""

from sarqc.extras import Extra, lazily

EXTRA = Extra(
    "publish",
    commands=lazily("sarqc.extras.publish.command:add_command"),
    install=lazily("sarqc.extras.publish.site_archives:install"),
    controls=("publish",),
)
