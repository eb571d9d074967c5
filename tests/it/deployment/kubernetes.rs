//! The manifests in `deploy/kubernetes`.

use serde_json::{Value, json};
use tokio::process::Command;
use toolpost::config::Config;
use toolpost::telemetry::metrics::catalog::CATALOG;

use super::{assert_known, assert_settings, at, drain_s, text, yaml};
use crate::support::fixture::project_file;

const FILES: [&str; 5] = ["toolpost", "autoscaler", "secret", "first-key", "workers"];
/// The version of objects that are not part of Kubernetes itself, so that its schemas do not describe them.
const KEDA: &str = "keda.sh/v1alpha1";

fn objects() -> Vec<Value> {
    FILES.iter().flat_map(|file| yaml(&format!("deploy/kubernetes/{file}.yaml"))).collect()
}

fn object(kind: &str) -> Value {
    let mut found = objects().into_iter().filter(|object| object["kind"] == kind);
    let object = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(found.next().is_none(), "two of {kind}");
    object
}

/// Returns the pod templates of the service and of the job that creates its first key.
fn pods() -> [Value; 2] {
    ["Deployment", "Job"].map(|kind| at(&object(kind), "/spec/template/spec").clone())
}

#[test]
fn every_object_is_labelled() {
    let objects = objects();
    for object in &objects {
        for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
            assert!(at(object, pointer).is_string());
        }
    }
    let mut kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    let expected = [
        "ConfigMap",
        "Deployment",
        "HorizontalPodAutoscaler",
        "Job",
        "PodDisruptionBudget",
        "ScaledObject",
        "Secret",
        "Service",
    ];
    assert_eq!(kinds, expected);
    let foreign: Vec<&Value> = objects.iter().filter(|object| object["apiVersion"] == KEDA).collect();
    assert_eq!(foreign.len(), 1);
}

/// Validates the manifests against the JSON Schemas of Kubernetes, without unknown fields.
#[tokio::test]
#[ignore = "surfaces"]
async fn every_object_is_valid_for_kubernetes() {
    const HINT: &str = "scripts/test installs it";
    let program = project_file("tests/clients/python/.venv/bin/kubernetes-validate");
    let mut command = Command::new(&program);
    command.args(["--strict", "--kubernetes-version", "1.30"]);
    let own: Vec<Value> = objects().into_iter().filter(|object| object["apiVersion"] != KEDA).collect();
    let files = FILES.iter().filter(|file| yaml(&format!("deploy/kubernetes/{file}.yaml"))[0]["apiVersion"] != KEDA);
    command.args(files.map(|file| project_file(&format!("deploy/kubernetes/{file}.yaml"))));
    let output = command.output().await.unwrap_or_else(|error| panic!("{}: {error}; {HINT}", program.display()));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    assert_eq!(printed.matches(" passed for resource ").count(), own.len(), "{printed}");
}

#[test]
fn autoscaler_follows_the_queue() {
    let autoscaler = object("HorizontalPodAutoscaler");
    let metric = at(&autoscaler, "/spec/metrics/0/pods/metric/name").as_str().unwrap();
    assert_eq!(metric, "toolpost_queue_length");
    assert!(CATALOG.iter().any(|known| known.name == metric), "the service has no such metric");
    let document = text("deploy/kubernetes/autoscaler.yaml");
    assert!(document.contains(&format!("seriesQuery: '{metric}{{")), "the adapter serves another metric");
}

/// Checks the fields of the `ScaledObject` by the documentation of KEDA, whose schema is not one of Kubernetes.
#[test]
fn workers_are_scaled_by_their_queue() {
    let scaled = object("ScaledObject");
    let members = |value: &Value| {
        let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        names.sort();
        names
    };
    assert_eq!(at(&scaled, "/apiVersion"), KEDA);
    assert_eq!(members(&scaled), ["apiVersion", "kind", "metadata", "spec"]);
    let spec = ["cooldownPeriod", "maxReplicaCount", "minReplicaCount", "scaleTargetRef", "triggers"];
    assert_eq!(members(at(&scaled, "/spec")), spec);
    assert_eq!(members(at(&scaled, "/spec/scaleTargetRef")), ["name"]);
    let count = |pointer: &str| at(&scaled, pointer).as_u64().unwrap();
    assert!(
        count("/spec/minReplicaCount") == 0 && count("/spec/maxReplicaCount") > 1 && count("/spec/cooldownPeriod") > 0
    );
    assert_eq!(at(&scaled, "/spec/triggers").as_array().unwrap().len(), 1);
    assert_eq!(members(at(&scaled, "/spec/triggers/0")), ["metadata", "type"]);
    assert_eq!(at(&scaled, "/spec/triggers/0/type"), "prometheus");
    let metadata = at(&scaled, "/spec/triggers/0/metadata");
    assert_eq!(members(metadata), ["activationThreshold", "query", "serverAddress", "threshold"]);
    // KEDA reads the numbers of a trigger from strings.
    for number in ["threshold", "activationThreshold"] {
        metadata[number].as_str().unwrap().parse::<f64>().unwrap();
    }
    let query = metadata["query"].as_str().unwrap();
    let metrics: Vec<&str> = query.split("toolpost_").skip(1).map(|rest| rest.split('{').next().unwrap()).collect();
    assert_eq!(metrics, ["worker_queue_waiting", "worker_queue_running"]);
    for metric in metrics {
        let known = CATALOG.iter().find(|known| known.name == format!("toolpost_{metric}"));
        let known = known.unwrap_or_else(|| panic!("the service has no metric {metric}"));
        assert!(known.labels.contains(&"queue"), "{metric} has no such label");
    }
}

#[test]
fn pods_run_unprivileged_on_a_read_only_root() {
    for pod in pods() {
        assert_eq!(at(&pod, "/securityContext/runAsNonRoot"), true);
        assert_eq!(at(&pod, "/securityContext/runAsUser"), 65532, "the image's user");
        assert_eq!(at(&pod, "/securityContext/seccompProfile/type"), "RuntimeDefault");
        assert_eq!(
            (at(&pod, "/automountServiceAccountToken"), at(&pod, "/enableServiceLinks")),
            (&json!(false), &json!(false))
        );
        let container = at(&pod, "/containers/0");
        assert_eq!(at(container, "/securityContext/readOnlyRootFilesystem"), true);
        assert_eq!(at(container, "/securityContext/allowPrivilegeEscalation"), false);
        assert_eq!(at(container, "/securityContext/capabilities/drop"), &json!(["ALL"]));
        assert_eq!(at(container, "/image"), &format!("toolpost:{}", env!("CARGO_PKG_VERSION")));
        assert!(container.get("command").is_none(), "the program is the image's own");
        assert!(at(container, "/resources/limits/memory").is_string());
    }
}

#[test]
fn probe_paths_exist_and_only_readiness_depends_on_the_database() {
    let container = at(&object("Deployment"), "/spec/template/spec/containers/0").clone();
    let document = toolpost::http::openapi();
    for (probe, path) in [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        assert_eq!(at(&container, &format!("/{probe}/httpGet/path")), path);
        assert!(document["paths"].get(path).is_some(), "{path}");
        assert_eq!(at(&container, &format!("/{probe}/httpGet/port")), at(&container, "/ports/0/name"));
    }
    assert_eq!(at(&container, "/ports/0/containerPort"), 8080);
}

#[test]
fn pod_has_time_to_drain() {
    let pod = at(&object("Deployment"), "/spec/template/spec").clone();
    let rest = at(&pod, "/containers/0/lifecycle/preStop/sleep/seconds").as_u64().unwrap();
    let grace = at(&pod, "/terminationGracePeriodSeconds").as_u64().unwrap();
    assert!(grace >= rest + drain_s(), "{grace}");
}

#[test]
fn selectors_match_pod_labels() {
    let deployment = object("Deployment");
    let labels = at(&deployment, "/spec/template/metadata/labels");
    assert_eq!(at(&deployment, "/spec/selector/matchLabels"), labels);
    assert_eq!(at(&object("PodDisruptionBudget"), "/spec/selector/matchLabels"), labels);
    let service = object("Service");
    assert_eq!(at(&service, "/spec/selector"), labels);
    assert_eq!(
        at(&service, "/spec/ports/0/targetPort"),
        at(&deployment, "/spec/template/spec/containers/0/ports/0/name")
    );
    assert_eq!(at(&object("HorizontalPodAutoscaler"), "/spec/scaleTargetRef/name"), at(&deployment, "/metadata/name"));
    let job = object("Job");
    assert_ne!(at(&job, "/spec/template/metadata/labels"), labels, "the service does not send calls to the job");
}

#[test]
fn volumes_and_settings_exist() {
    let pod = at(&object("Deployment"), "/spec/template/spec").clone();
    let names = |list: &Value| -> Vec<String> {
        let mut names: Vec<_> =
            list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(at(&pod, "/volumes")), names(at(&pod, "/containers/0/volumeMounts")));
    let settings = object("ConfigMap");
    let config = assert_settings(at(&settings, "/data/toolpost.toml").as_str().unwrap());
    assert!(config.server.trusted_proxies.is_empty(), "whom to trust is the operator's to say");
    assert_eq!(config.server.drain_ms, Config::default().server.drain_ms);
    for pod in pods() {
        assert_eq!(at(&pod, "/containers/0/envFrom/0/secretRef/name"), at(&object("Secret"), "/metadata/name"));
    }
    for (name, _) in at(&object("Secret"), "/stringData").as_object().unwrap() {
        assert_known(name);
    }
}
