//! Dates for templates that print today's.

use std::fmt::Write;

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const SECONDS_PER_DAY: i64 = 86_400;

/// A point in time on a wall clock, without a time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateTime {
    seconds: i64,
}

/// A calendar date.
struct Date {
    year: i64,
    month: usize,
    day: i64,
    day_of_year: i64,
    weekday: usize,
}

impl DateTime {
    /// `seconds` since 1970-01-01 00:00:00 on this clock: Unix time plus the zone's offset from UTC.
    pub fn from_unix_seconds(seconds: i64) -> Self {
        // Within ±30,000 years, so that no later sum overflows.
        Self { seconds: seconds.clamp(-1 << 40, 1 << 40) }
    }

    /// Formats as C's `strftime` does in the C locale. A directive this function does not know stays as written.
    pub fn strftime(&self, format: &str) -> String {
        let date = self.date();
        let mut out = String::new();
        let mut rest = format.chars();
        while let Some(c) = rest.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut directive = rest.next();
            let pad = directive != Some('-');
            if !pad {
                directive = rest.next();
            }
            match directive.and_then(|d| self.field(&date, d, pad)) {
                Some(text) => out.push_str(&text),
                None => {
                    out.push_str(if pad { "%" } else { "%-" });
                    out.extend(directive);
                }
            }
        }
        out
    }

    fn field(&self, date: &Date, directive: char, pad: bool) -> Option<String> {
        let of_day = self.seconds.rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let hour12 = (hour + 11) % 12 + 1;
        let number = |value: i64, width: usize| {
            let mut text = String::new();
            // Writing to a String cannot fail.
            let _ = if pad { write!(text, "{value:0width$}") } else { write!(text, "{value}") };
            text
        };
        let (weekday, month) = (WEEKDAYS[date.weekday], MONTHS[date.month - 1]);
        Some(match directive {
            'Y' => date.year.to_string(),
            'y' => number(date.year.rem_euclid(100), 2),
            'm' => number(date.month as i64, 2),
            'd' => number(date.day, 2),
            'e' => format!("{:>width$}", date.day, width = if pad { 2 } else { 0 }),
            'j' => number(date.day_of_year, 3),
            'H' => number(hour, 2),
            'I' => number(hour12, 2),
            'M' => number(minute, 2),
            'S' => number(second, 2),
            'f' => "000000".into(),
            'p' => if hour < 12 { "AM" } else { "PM" }.into(),
            'A' => weekday.into(),
            'a' => weekday[..3].into(),
            'B' => month.into(),
            'b' | 'h' => month[..3].into(),
            'w' => date.weekday.to_string(),
            'u' => (if date.weekday == 0 { 7 } else { date.weekday }).to_string(),
            'F' => self.strftime("%Y-%m-%d"),
            'T' | 'X' => self.strftime("%H:%M:%S"),
            'R' => self.strftime("%H:%M"),
            'D' | 'x' => self.strftime("%m/%d/%y"),
            'c' => self.strftime("%a %b %e %H:%M:%S %Y"),
            'n' => "\n".into(),
            't' => "\t".into(),
            '%' => "%".into(),
            'Z' | 'z' => String::new(),
            _ => return None,
        })
    }

    /// Counts days from 0000-03-01, so that a leap day is the last of its year; 400 years are one cycle.
    fn date(&self) -> Date {
        const DAYS_PER_CYCLE: i64 = 146_097;
        let days = self.seconds.div_euclid(SECONDS_PER_DAY);
        let since_march = days + 719_468;
        let cycle = since_march.div_euclid(DAYS_PER_CYCLE);
        let of_cycle = since_march.rem_euclid(DAYS_PER_CYCLE);
        let year_of_cycle = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
        let of_year = of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        let shifted_month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let day_of_year = if month > 2 { of_year + 60 + i64::from(is_leap) } else { of_year - 305 };
        Date { year, month: month as usize, day, day_of_year, weekday: (days + 4).rem_euclid(7) as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_the_calendar() {
        let at = |seconds| DateTime::from_unix_seconds(seconds).strftime("%Y-%m-%d %H:%M:%S %a %j");
        assert_eq!(at(0), "1970-01-01 00:00:00 Thu 001");
        assert_eq!(at(951_782_399), "2000-02-28 23:59:59 Mon 059");
        assert_eq!(at(951_868_799), "2000-02-29 23:59:59 Tue 060");
        assert_eq!(at(1_751_619_907), "2025-07-04 09:05:07 Fri 185");
        assert_eq!(at(1_735_603_200), "2024-12-31 00:00:00 Tue 366");
        assert_eq!(at(-1), "1969-12-31 23:59:59 Wed 365");
        assert_eq!(at(4_102_444_800), "2100-01-01 00:00:00 Fri 001");
    }

    #[test]
    fn directives_pad_as_asked_and_unknown_ones_stay() {
        let time = DateTime::from_unix_seconds(1_751_619_907);
        assert_eq!(
            time.strftime("%-d %e %B %b %y %I%p %-H %% %Q %-Q %"),
            "4  4 July Jul 25 09AM 9 % %Q %-Q %"
        );
        assert_eq!(time.strftime("%F %T %c"), "2025-07-04 09:05:07 Fri Jul  4 09:05:07 2025");
    }
}
