"""Writes sales-notes.pdf: an analyst's interview notes on why sales fell.

Needs reportlab and two fonts: DejaVu Serif (fonts-dejavu) and WenQuanYi Zen Hei (fonts-wqy-zenhei). Both are embedded
as subsets, so the file shows the same everywhere. Run: python3 make_sales_notes.py [output.pdf]
"""

import re
import sys
from pathlib import Path

from reportlab.lib import colors
from reportlab.lib.enums import TA_JUSTIFY
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.platypus import Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

DEJAVU = Path("/usr/share/fonts/truetype/dejavu")
ZENHEI = Path("/usr/share/fonts/truetype/wqy/wqy-zenhei.ttc")

pdfmetrics.registerFont(TTFont("Serif", DEJAVU / "DejaVuSerif.ttf"))
pdfmetrics.registerFont(TTFont("Serif-Bold", DEJAVU / "DejaVuSerif-Bold.ttf"))
italic = DEJAVU / "DejaVuSerif-Italic.ttf"
pdfmetrics.registerFont(TTFont("Serif-Italic", italic if italic.exists() else DEJAVU / "DejaVuSerif.ttf"))
pdfmetrics.registerFont(TTFont("Hei", ZENHEI, subfontIndex=0))
pdfmetrics.registerFontFamily("Serif", "Serif", "Serif-Bold", "Serif-Italic", "Serif-Bold")

INK = colors.HexColor("#1d2733")
RULE = colors.HexColor("#9aa5b1")

body = ParagraphStyle("body", fontName="Serif", fontSize=9.5, leading=14, textColor=INK, spaceAfter=6, alignment=TA_JUSTIFY)
title = ParagraphStyle("title", parent=body, fontName="Serif-Bold", fontSize=19, leading=24, spaceAfter=4, alignment=0)
subtitle = ParagraphStyle("subtitle", parent=body, fontSize=9, textColor=colors.HexColor("#5b6875"), spaceAfter=12, alignment=0)
h1 = ParagraphStyle("h1", parent=body, fontName="Serif-Bold", fontSize=13.5, leading=18, spaceBefore=12, spaceAfter=5, keepWithNext=1, alignment=0)
h2 = ParagraphStyle("h2", parent=body, fontName="Serif-Bold", fontSize=11, leading=15, spaceBefore=8, spaceAfter=3, keepWithNext=1, alignment=0)
quote = ParagraphStyle("quote", parent=body, fontName="Serif-Italic", leftIndent=9 * mm, rightIndent=9 * mm, textColor=colors.HexColor("#33414f"))
bullet = ParagraphStyle("bullet", parent=body, leftIndent=6 * mm, bulletIndent=1.5 * mm, spaceAfter=3, alignment=0)
cell = ParagraphStyle("cell", parent=body, fontSize=8.5, leading=11, spaceAfter=0, alignment=0)


def mixed(text):
    """Chinese runs in the Chinese font."""
    return re.sub(r"([\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]+)", r'<font name="Hei">\1</font>', text)


def p(text, style=body):
    return Paragraph(mixed(text), style)


def bullets(*items):
    return [Paragraph(mixed(item), bullet, bulletText="•") for item in items]


def grid(rows, widths, numbers):
    """A ruled table; the columns named in `numbers` are set flush right."""
    chinese = re.compile("[\u3000-\u9fff]")
    data = [[Paragraph(mixed(c), cell) if chinese.search(c) else c for c in row] for row in rows]
    table = Table(data, colWidths=[w * mm for w in widths], repeatRows=1, hAlign="LEFT")
    table.setStyle(TableStyle([
        ("FONT", (0, 0), (-1, -1), "Serif", 8.5),
        ("FONT", (0, 0), (-1, 0), "Serif-Bold", 8.5),
        ("TEXTCOLOR", (0, 0), (-1, -1), INK),
        *[("ALIGN", (column, 0), (column, -1), "RIGHT") for column in numbers],
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ("LINEBELOW", (0, 0), (-1, 0), 0.9, INK),
        ("LINEBELOW", (0, 1), (-1, -1), 0.35, RULE),
        ("TOPPADDING", (0, 0), (-1, -1), 3),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 4),
    ]))
    return [Spacer(1, 2), table, Spacer(1, 8)]


def footer(canvas, document):
    canvas.saveState()
    canvas.setFont("Serif", 7.5)
    canvas.setFillColor(colors.HexColor("#7a8794"))
    canvas.drawString(22 * mm, 12 * mm, "Kestrel Home Appliances - internal - interview notes, H2 review")
    canvas.drawRightString(A4[0] - 22 * mm, 12 * mm, f"Page {document.page}")
    canvas.restoreState()


story = [
    p("Why did sales fall in Q3?", title),
    p("Interview notes and first figures, AirPure product line. Written by Hanna Brandt, commercial analysis, "
      "14 October 2025. Seven conversations between 29 September and 10 October; the numbers come from the sales "
      "ledger as of 8 October and have not been audited.", subtitle),

    p("1. What we know from the ledger", h1),
    p("AirPure sold 41,300 units in Q3 2025, down from 52,900 in Q2. That is 11,600 units, or 21.9 percent, in one "
      "quarter. Revenue went from EUR 9.52 million to EUR 7.68 million, a loss of EUR 1.84 million. The third quarter "
      "is normally our second best: in 2024 it was 3 percent above the second, not a fifth below it."),
    p("The fall is not even. North lost almost a third of its units, West and South much less, and China (中国) sits in "
      "between. Online shops (counted inside the regions) lost more than stores."),
    *grid([
        ["Region", "Q1 units", "Q2 units", "Q3 units", "Change Q3/Q2", "Q3 revenue (EUR)"],
        ["North", "17,200", "18,400", "12,700", "-31.0%", "2,349,500"],
        ["West", "13,100", "13,600", "11,900", "-12.5%", "2,261,000"],
        ["South", "8,900", "9,300", "8,100", "-12.9%", "1,498,500"],
        ["China (中国)", "11,000", "11,600", "8,600", "-25.9%", "1,573,800"],
        ["Total", "50,200", "52,900", "41,300", "-21.9%", "7,682,800"],
    ], [34, 22, 22, 22, 28, 34], numbers=(1, 2, 3, 4, 5)),
    p("Two things the table does not show. The average price actually went up, from EUR 180 to EUR 186, because of the "
      "list price change on 1 July. And returns stayed flat at 2.1 percent, so quality is not the story, whatever the "
      "rumour in the canteen says."),
    p("I asked everybody the same three questions: what changed for your customers after 1 July, which orders did you "
      "lose and to whom, and what would have kept them. Where people gave numbers I checked them against the ledger; "
      "where I could not check them I say so."),

    p("2. Interviews", h1),
    p("2.1 Marta Lindqvist, head of sales North (29 September)", h2),
    p("Marta puts one cause above all others: the loss of Nordhem, the furniture chain. Nordhem took 4,100 units in Q2 "
      "and exactly none after 20 July. Their buyer had been told in May that the price would stay until the end of the "
      "year; then the new list arrived with plus 8 percent, three weeks before it took effect."),
    p("\"They did not even negotiate. Their buyer said: you promised me a year and gave me six months. He signed with "
      "Ventara the week after.\"", quote),
    p("Ventara offered Nordhem the comparable model at EUR 159, according to Marta, against our new EUR 194. She has "
      "not seen the contract. She expects Nordhem to stay away for at least twelve months, since they printed "
      "Ventara into their autumn catalogue. Of the 5,700 units North lost, she books 4,100 on Nordhem, about 900 on the "
      "price rise at smaller dealers, and the remaining 700 on empty shelves and Ventara's discount in August."),
    p("She also complained at length about the new expense tool, which I leave out here."),

    p("2.2 王丽 (Wang Li), key accounts China (30 September, by video)", h2),
    p("王丽 sees the price as a smaller problem than the missing product. The AirPure 3 was announced at the spring fair "
      "for July and is now promised for November. Dealers in Shanghai and Hangzhou stopped ordering the AirPure 2 in "
      "June because they expected to be left with old stock."),
    p("\"客户在等新产品。\" - \"Customers are waiting for the new product. Every week of delay I lose about 200 units, and "
      "they do not come back, they buy local.\"", quote),
    p("Her count: 2,600 of the 3,000 units China lost are orders that dealers postponed or cancelled because of the "
      "delay (延迟). She kept a list with dates and names, which I have seen; it adds up to 2,640. The other 400 she "
      "puts down to a promotion by the local brand 清风 during the last week of August. She did not raise the price: "
      "China still sells at the old list until January."),
    p("What would have kept them: an honest date. \"A late date is better than a wrong date,\" she says. She asks for a "
      "trade-in guarantee for AirPure 2 stock, at about EUR 12 per unit."),

    p("2.3 Tom\u00e1s Rivera, supply planning (1 October)", h2),
    p("Tom\u00e1s is open about the stock-outs. The filter supplier in Brno closed for five weeks after a fire on 19 July. "
      "The AirPure 2 was out of stock in the central warehouse for 23 days, from 4 to 26 August, and the online shop "
      "showed \"available in 3 weeks\" for most of that time."),
    p("He estimates 1,900 lost units over all European regions: 1,000 in West, 600 in South, 300 in North. The basis is "
      "the number of baskets that were abandoned on the delivery date, times the usual conversion. This is a model and "
      "not a count, and he says himself that it may be off by a quarter either way."),
    *bullets(
        "Second source for filters: none today. One in Porto could be qualified by February, cost about EUR 85,000.",
        "Safety stock was cut from 30 to 12 days in March to save EUR 240,000 of working capital.",
        "The warning system did fire on 28 July; the mail went to a colleague who had left in June.",
    ),

    p("2.4 Jonas Weber, online sales (2 October)", h2),
    p("Jonas talks about Ventara's discount. From 11 August to 14 September Ventara sold its A-200 for EUR 129 instead of "
      "EUR 169 on the two big market places. Our search position did not change, but the conversion rate fell from 4.6 "
      "to 3.1 percent in the same weeks. He attributes 1,100 lost units to it (West 400, South 300, North 400)."),
    p("\"You cannot raise the price by 8 percent in July and watch the other one cut by a quarter in August. We looked "
      "like the greedy ones.\"", quote),
    p("He tried a EUR 15 voucher in the last two weeks of September. It brought 260 orders, at a cost of EUR 3,900, and "
      "he would do it again. The weather was mild and the pollen season short, he adds; he does not believe that this "
      "explains much, and the category as a whole fell by only 2 percent according to the market panel."),

    p("2.5 Aisha Karim, store partners West and South (6 October)", h2),
    p("Aisha's dealers talk about price first. The list price of the AirPure 2 went from EUR 179.90 to EUR 194.30 on "
      "1 July, plus 8 percent. Forty-one of her 120 dealers ordered less in Q3 than in Q2; she called all of them. "
      "Twenty-six named the price, nine the empty warehouse, four Ventara, two would not say."),
    p("\"Below 180 it sells itself. Above 190 people ask what else you have.\"", quote),
    p("She reckons 800 lost units in West and 300 in South through price alone. She also says that the training budget for "
      "shop staff was cut, but could not name a sale that was lost through it."),

    p("2.6 Dr. Felix Adler, product management (7 October)", h2),
    p("Felix confirms the delay of the AirPure 3: planned for 8 July, now 17 November, that is 19 weeks. The reason is "
      "the failed certification of the power supply in May; the second test is booked for 20 October. He had asked for "
      "the announcement to be held back and was overruled, which the minutes of 11 April bear out."),
    p("On the rumour of quality problems: the return rate is 2.1 percent in Q3 and was 2.2 percent in Q2. Service calls "
      "are down. He sees no technical cause for the fall."),

    p("2.7 周敏 (Zhou Min), finance (10 October)", h2),
    p("周敏 defends the price rise. Material cost per unit rose by EUR 9.40 since January, mostly filters and freight. "
      "Without the new list the margin would have been 24 percent instead of 29. Her calculation: the rise brought "
      "about EUR 480,000 on the units that were sold in Europe, but she agrees that it has to be set against the units "
      "that were not."),
    p("\"价格不是唯一的原因。\" - \"The price is not the only reason. But we changed it at the worst moment, without telling "
      "the people who had to sell it.\"", quote),

    p("3. Causes, as far as the numbers carry", h1),
    p("I added up what each person attributed to each cause and compared the sum with "
      "the ledger. The lines below come to 12,100 units, 500 more than were lost. The overlap sits in West, where price, "
      "stock-out and discount together claim 2,200 units and only 1,700 are missing. Shares are of the 11,600 units lost."),
    *grid([
        ["Cause", "Units lost", "Share", "Who says so", "How sure"],
        ["Lost key account Nordhem", "4,100", "35%", "Lindqvist", "counted in the ledger"],
        ["Delayed launch of AirPure 3", "2,600", "22%", "王丽, Adler", "list of orders seen"],
        ["Price increase of 8% on 1 July", "2,000", "17%", "Karim, Lindqvist", "dealer calls"],
        ["Stock-out, 23 days in August", "1,900", "16%", "Rivera", "model, +/- 25%"],
        ["Ventara discount, EUR 129", "1,100", "9%", "Weber", "conversion rate"],
        ["Promotion of 清风 in China", "400", "3%", "王丽", "her estimate"],
    ], [54, 21, 15, 34, 38], numbers=(1, 2)),
    p("The price rise is in truth larger than its own line: Nordhem left over the price and the broken promise together. "
      "If one counts Nordhem as a price effect, price explains 6,100 units, more than half of the fall."),
    p("What does not explain the fall: quality (returns flat at 2.1 percent), the market (category minus 2 percent), and "
      "the weather."),

    p("4. What people propose", h1),
    *bullets(
        "Price: go back below EUR 190 for dealers until the AirPure 3 is here (Karim, Weber). Cost about EUR 5 per unit.",
        "Nordhem: a visit by the management before their spring catalogue closes on 15 December (Lindqvist).",
        "China: publish the November date now, with a trade-in guarantee of EUR 12 per unit (王丽).",
        "Stock: safety stock back to 30 days for filters and a second supplier by February (Rivera).",
        "No further announcements of products without a passed certification (Adler).",
    ),
    p("5. Open questions", h1),
    *bullets(
        "Does the promise to Nordhem exist in writing? Marta is looking for the mail of 14 May.",
        "How many of the postponed orders in China come back in November? 王丽 says half, at best.",
        "Panel data for September arrives on 24 October; until then the 2 percent is preliminary.",
    ),
    p("Notes in my own words unless in quotation marks; the people named have read their section. Hanna Brandt, ext. 4417.",
      subtitle),
]

target = sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).with_name("sales-notes.pdf"))
document = SimpleDocTemplate(
    target, pagesize=A4, leftMargin=22 * mm, rightMargin=22 * mm, topMargin=20 * mm, bottomMargin=22 * mm,
    title="Why did sales fall in Q3? Interview notes", author="Hanna Brandt", subject="AirPure, Q3 2025", invariant=1,
)
document.build(story, onFirstPage=footer, onLaterPages=footer)
