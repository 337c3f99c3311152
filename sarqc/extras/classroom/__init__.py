"""Teaching: lectures whose phones guess at λ, and cards of the Lab in frames of other sites."""

from sarqc.extras import Extra, lazily

EXTRA = Extra(
    "classroom",
    requires=("segno",),
    install=lazily("sarqc.extras.classroom.install:install"),
    controls=("lecture",),
)
