//! What the machine must have: files, folders, programs. Said before anything is started.

use std::path::{Path, PathBuf};

use super::file::Document;
use super::file::calls::Calls as Written;
use super::model::{Calls, Config, RouteTarget};
use super::report::Place;
use super::resolve::{Resolver, blame};

impl Resolver<'_> {
    /// Looks for everything the configuration names.
    pub(super) fn machine_has(&mut self, document: &Document, config: &Config) {
        if let (Some(tls), Some(sub)) = (&config.server.tls, &document.server.inner.tls) {
            let (cert, key) = (sub.inner.cert.as_ref(), sub.inner.key.as_ref());
            for (name, path, set) in [("cert", &tls.cert, cert), ("key", &tls.key, key)] {
                let place = set.map_or(&sub.place, |set| &set.place);
                self.pem(&format!("server.tls.{name}"), path, place);
            }
        }
        if let Some(path) = &config.cache.tls_ca {
            self.pem("cache.tls_ca", path, &document.cache.inner.tls_ca.place);
        }
        let worker = &document.worker.inner;
        let mut base = self.machine.working_dir();
        if let (Some(cwd), Some(set)) = (&config.worker.cwd, &worker.cwd) {
            base.clone_from(cwd);
            self.dir("worker.cwd", cwd, &set.place);
        }
        // What is looked for in a folder that is missing is missing too: no news.
        let known = |path: &Path| !path.starts_with(&base) || self.machine.is_dir(&base);
        let php = &document.php.inner;
        if let Some(app) = config.php.app.as_ref().filter(|app| known(app)) {
            self.file("php.app", app, &php.app.place);
        }
        if let (Some(script), Some(set)) = (&config.php.worker, &php.worker) {
            self.file("php.worker", script, &set.place);
        }
        if let Some(program) = config.worker.command.first().filter(|name| known(name.as_ref())) {
            let (key, place) = match &config.php.app {
                Some(_) => ("php.bin", blame([&php.bin.place, &php.app.place])),
                None => ("worker.command", worker.command.place.clone()),
            };
            self.program(key, program, &base, config, &place);
        }
        if let (Some(dir), Some(set)) = (&config.worker.socket_dir, &worker.socket_dir) {
            // It is made if only it is missing itself.
            let exists = self.machine.exists(dir);
            if exists && !self.machine.is_dir(dir) {
                let message = format!("`worker.socket_dir`: {} is not a folder", dir.display());
                self.error(&set.place, message, "name a folder, or one that is not there yet");
            } else if !exists && !dir.parent().is_some_and(|parent| self.machine.is_dir(parent)) {
                self.dir("worker.socket_dir", dir, &set.place);
            }
        }
        let log = &document.log.inner.event_log;
        self.parent("log.event_log", config.log.event_log.as_deref(), &log.place);
        let ledger = &document.log.inner.ledger;
        self.parent("log.ledger", config.log.ledger.as_deref(), &ledger.place);
        for (name, upstream) in &config.upstreams {
            let written = document.upstream.0.get(name).map(|sub| &sub.inner.calls.0);
            self.authorities(&format!("upstream.{name}"), &upstream.calls, written);
        }
        self.authorities("plan", &config.plan.calls, Some(&document.plan.inner.calls.0));
        let journal = &document.cache.inner.journal.inner.file;
        self.parent("cache.journal.file", config.cache.journal.file.as_deref(), &journal.place);
        if let Some(root) = config.plan.fixture_root.as_ref().filter(|_| config.plan.allow_fixtures)
        {
            self.dir("plan.fixture_root", root, &document.plan.inner.fixture_root.place);
        }
        let mut told = false;
        for (route, sub) in config.routes.iter().zip(&document.route.0) {
            if let (RouteTarget::Static(root), Some(set)) = (&route.to, &sub.inner.root) {
                self.dir("route.root", root, &set.place);
                if !std::mem::replace(&mut told, true) {
                    self.kernel(&sub.inner.to.place);
                }
            }
        }
    }

    /// What routes to folders need of the kernel.
    fn kernel(&mut self, place: &Place) {
        if let Err(error) = self.machine.files_can_be_served() {
            let message = format!("files cannot be served here: openat2(2) fails: {error}");
            let advice = "it needs Linux 5.6 or later, and a system call filter that allows it";
            self.error(place, message, advice);
        }
    }

    /// The file of the authorities of an upstream.
    fn authorities(&mut self, table: &str, calls: &Calls, written: Option<&Written>) {
        let set = written.and_then(|written| written.tls_ca.as_ref());
        if let (Some(path), Some(set)) = (&calls.tls_ca, set) {
            self.file(&format!("{table}.tls_ca"), path, &set.place);
        }
    }

    /// A file that holds what it should, as far as its first lines tell: the listener reads the rest.
    fn pem(&mut self, key: &str, path: &Path, place: &Place) {
        let private = key.ends_with(".key");
        if !self.machine.is_file(path) {
            return self.file(key, path, place);
        }
        let shown = path.display();
        let text = match self.machine.text(path) {
            Ok(text) => text,
            Err(error) => {
                let message = format!("`{key}`: cannot read {shown}: {error}");
                return self.error(place, message, "let the user that runs hedgerow read it");
            }
        };
        let holds = |label: &&str| text.contains(&format!("-----BEGIN {label}-----"));
        let (what, labels): (_, &[&str]) = match private {
            false => ("certificate", &["CERTIFICATE"]),
            true => ("private key", &["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"]),
        };
        if labels.iter().any(holds) {
            return;
        }
        let message = format!("`{key}`: there is no {what} in {shown}");
        let advice = if private && holds(&"ENCRYPTED PRIVATE KEY") {
            format!("it is encrypted; `openssl pkey -in {shown} -out NEW` writes one that is not")
        } else {
            format!("name a PEM file with a block -----BEGIN {}-----", labels[0])
        };
        self.error(place, message, advice);
    }

    fn file(&mut self, key: &str, path: &Path, place: &Place) {
        if !self.machine.is_file(path) {
            let message = format!("`{key}`: there is no file {}", path.display());
            self.error(place, message, "check the path");
        }
    }

    fn dir(&mut self, key: &str, path: &Path, place: &Place) {
        if !self.machine.is_dir(path) {
            let message = format!("`{key}`: there is no folder {}", path.display());
            self.error(place, message, "create it, or name another");
        }
    }

    fn parent(&mut self, key: &str, path: Option<&Path>, place: &Place) {
        let Some(path) = path.map(|path| self.absolute(path)) else { return };
        if let Some(parent) = path.parent().filter(|_| !self.machine.is_dir(&path)) {
            self.dir(key, parent, place);
        } else {
            let message = format!("`{key}`: {} is a folder", path.display());
            self.error(place, message, "name a file");
        }
    }

    fn program(&mut self, key: &str, name: &str, base: &Path, config: &Config, place: &Place) {
        let found = |path: PathBuf| self.machine.is_program(&path);
        if name.contains('/') {
            if !found(name.into()) {
                let message = format!("`{key}`: there is no program {name}");
                self.error(place, message, "check the path, and that the file may be executed");
            }
            return;
        }
        let path = config.worker.env.get("PATH").or_else(|| self.sources.environment.get("PATH"));
        let path = path.map_or("/usr/bin:/bin", String::as_str);
        if !path.split(':').any(|dir| found(base.join(dir).join(name))) {
            let message = format!("`{key}`: there is no program {name:?} in PATH");
            let advice = if key == "php.bin" {
                "install PHP, or set php.bin to its path"
            } else {
                "install it, or write its whole path"
            };
            self.error(place, message, advice);
        }
    }
}
