"""Colours and places on the screen."""

from rich.style import Style

from exporter.terminal.draw import Tone

STYLES = {
    Tone.PLAIN: Style(),
    Tone.STRONG: Style(bold=True, color="#f2f4f8"),
    Tone.FAINT: Style(color="#8b93a1"),
    Tone.CALM: Style(color="#5fc08b"),
    Tone.NEAR: Style(color="#e2b34c"),
    Tone.OVER: Style(color="#ff6b6b", bold=True),
    Tone.UNKNOWN: Style(color="#c49bff"),
}

CSS = """
Screen { background: #14171c; color: #d5d9e0; layout: vertical; }
#title { background: #23303d; color: #f2f4f8; text-style: bold; padding: 0 1; height: 1; }
#troubles { color: #ff8585; padding: 0 1; max-height: 3; }
#head { height: 1; padding: 0 1; background: #1b2028; }
#tree { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; scrollbar-color: #3c4657;
  scrollbar-background: #14171c; }
#below { height: auto; dock: bottom; }
#details { background: #1b2028; padding: 0 1; height: auto; min-height: 3; max-height: 4; }
#filter { height: 1; border: none; padding: 0 1; background: #23303d; }
#keys { color: #8b93a1; padding: 0 1; height: 1; }
Help { align: center middle; background: #14171c 60%; }
#help { width: 72; max-width: 100%; height: auto; max-height: 100%; background: #1b2028;
  scrollbar-size-vertical: 1; border: round #3c4657; padding: 0 1; }
"""
