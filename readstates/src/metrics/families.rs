//! Declares what is counted together with what Prometheus is told of it, so that neither can be forgotten.

/// A struct of counters, gauges and histograms. A row is `kind field = name, help;` where the kind is `counter`, `total`
/// (a counter that is an `AtomicU64`), `gauge`, `seconds` or `bytes` (histograms of either). Fields after `and` are
/// written elsewhere: `field: type = value;`.
///
/// `write_families` writes all rows in their order.
macro_rules! families {
    (@type counter) => { readstates_metrics::Counter };
    (@type total) => { std::sync::atomic::AtomicU64 };
    (@type gauge) => { readstates_metrics::Gauge };
    (@type $histogram:ident) => { readstates_metrics::Histogram };

    (@write counter $text:ident, $family:literal, $help:literal, $value:expr) => {
        $text.counter($family, $help, $value.get())
    };
    (@write total $text:ident, $family:literal, $help:literal, $value:expr) => {
        $text.counter($family, $help, $value.load(std::sync::atomic::Ordering::Relaxed))
    };
    (@write gauge $text:ident, $family:literal, $help:literal, $value:expr) => {
        $text.gauge($family, $help, $value.get())
    };
    (@write seconds $text:ident, $family:literal, $help:literal, $value:expr) => {
        $text.family($family, $help, "histogram");
        $text.histogram($family, &[], &$value)
    };
    (@write bytes $text:ident, $family:literal, $help:literal, $value:expr) => {
        $text.family($family, $help, "histogram");
        $text.histogram_of_bytes($family, &$value)
    };

    (
        $(#[$about:meta])*
        $vis:vis struct $name:ident {
            $($kind:ident $field:ident = $family:literal, $help:literal;)*
        } and {
            $($(#[$doc:meta])* $other_vis:vis $other:ident: $type:ty = $value:expr;)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        $vis struct $name {
            $(#[doc = $help] $vis $field: $crate::metrics::families!(@type $kind),)*
            $($(#[$doc])* $other_vis $other: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: Default::default(),)*
                    $($other: $value,)*
                }
            }
        }

        impl $name {
            fn write_families(&self, text: &mut readstates_metrics::Text) {
                $($crate::metrics::families!(@write $kind text, $family, $help, self.$field);)*
            }
        }
    };
}
pub(crate) use families;
