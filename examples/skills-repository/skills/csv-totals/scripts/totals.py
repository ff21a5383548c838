"""Print the sum and the mean of every column of numbers in a CSV file."""

import csv
import sys


def main(path: str) -> int:
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for column in rows[0] if rows else ():
        numbers = [float(row[column]) for row in rows if (row[column] or "").strip().replace(".", "", 1).isdigit()]
        if numbers:
            mean, left_out = sum(numbers) / len(numbers), len(rows) - len(numbers)
            print(f"{column}: sum {sum(numbers):g}, mean {mean:g}, {left_out} left out")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
