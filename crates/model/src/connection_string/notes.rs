//! What is worth knowing about a string that is right.

use super::Scheme;
use super::diagnostic::{Draft, Part, Problem};
use super::options::{JavaSupport, OPTIONS, OptionName};
use super::resolve::Resolved;
use super::value::Value;

/// The options that `timeoutMS` takes the place of (facts/client.md A3, C1).
const REPLACED_BY_TIMEOUT: &[OptionName] =
    &[OptionName::SocketTimeoutMs, OptionName::WaitQueueTimeoutMs, OptionName::WTimeoutMs];

/// Adds the notes to `drafts`.
pub(super) fn add(resolved: &Resolved<'_>, drafts: &mut Vec<Draft>) {
    if resolved.parts.scheme == Scheme::MongodbSrv {
        dns(resolved, drafts);
    }
    let has_timeout = resolved.settings.contains_key(&OptionName::TimeoutMs);
    for spec in OPTIONS.iter().filter(|spec| resolved.settings.contains_key(&spec.id)) {
        let mut note = |problem, message: String| {
            let span = resolved.span_of(spec.id);
            drafts.push(Draft::note(problem, Part::OptionName, span, message).option(spec.id));
        };
        let name = spec.name;
        match spec.java {
            JavaSupport::Yes => {}
            JavaSupport::Since(version) => {
                note(Problem::NoEffect, format!("the Java driver 5.4 ignores {name}; {version} and later know it"));
            }
            JavaSupport::No => note(Problem::NoEffect, format!("the Java driver ignores {name}")),
        }
        if has_timeout && REPLACED_BY_TIMEOUT.contains(&spec.id) {
            note(Problem::NoEffect, format!("{name} has no effect, because timeoutMS is set"));
        } else if let Some(by) = spec.deprecated_by {
            note(Problem::DeprecatedOption, format!("{name} is deprecated in favour of {by}"));
        }
    }
    zlib(resolved, drafts);
    for occurrence in resolved.parts.occurrences.iter().filter(|occurrence| occurrence.has_plus) {
        let message = "a '+' in an option's value is taken as it is; the Java driver reads a space";
        let draft = Draft::note(Problem::UnescapedCharacter, Part::OptionValue, occurrence.value_span.clone(), message);
        drafts.push(draft.help("write %2B for a '+' and %20 for a space"));
    }
}

/// An SRV string says little by itself.
fn dns(resolved: &Resolved<'_>, drafts: &mut Vec<Draft>) {
    let service = resolved.text(OptionName::SrvServiceName).unwrap_or("mongodb");
    let span = resolved.parts.hosts_span.clone();
    let note = |problem, message: String| Draft::note(problem, Part::Host, span.clone(), message);
    let Some(host) = resolved.parts.hosts.first() else { return };
    let record = match resolved.parts.is_suspect {
        true => format!("_{service}._tcp"),
        false => format!("_{service}._tcp.{}", host.name()),
    };
    drafts.push(note(
        Problem::NeedsDns,
        format!(
            "needs DNS, which is not asked here: the SRV record of {record} names the hosts, and a TXT record could \
             add authSource, replicaSet or loadBalanced"
        ),
    ));
    if host.name().split('.').filter(|part| !part.is_empty()).count() < 3 {
        let message = "the host has fewer than three parts";
        drafts.push(
            note(Problem::NeedsDns, message.to_owned())
                .drivers("drivers from before 2025 refuse that; later ones want the hosts in DNS to have a part more"),
        );
    }
}

fn zlib(resolved: &Resolved<'_>, drafts: &mut Vec<Draft>) {
    let level = OptionName::ZlibCompressionLevel;
    let uses_zlib = match resolved.settings.get(&OptionName::Compressors) {
        Some(Value::List(names)) => names.iter().any(|name| name == "zlib"),
        _ => false,
    };
    if resolved.settings.contains_key(&level) && !uses_zlib {
        let message = "zlibCompressionLevel has no effect, because compressors does not name zlib";
        let draft = Draft::note(Problem::NoEffect, Part::OptionName, resolved.span_of(level), message);
        drafts.push(draft.option(level));
    }
}
