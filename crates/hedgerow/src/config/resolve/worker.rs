//! What to run: `worker.command`, the PHP shorthand, or sockets of others.

use std::path::{Path, PathBuf};

use super::{Resolver, blame, to};
use crate::config::file;
use crate::config::lint::in_effect;
use crate::config::report::Place;

/// Longest path of a Unix socket, without its closing NUL.
const LONGEST_SOCKET: usize = 107;

/// The packaged PHP worker, below the root of the project or of the installation.
const PHP_WORKER: &str = "sdk/php/bin/hedgerow-worker";
const PHP_WORKER_INSTALLED: &str = "/usr/share/hedgerow/php/bin/hedgerow-worker";

impl Resolver<'_> {
    pub(super) fn worker(&mut self, document: &file::Document) -> (to::Worker, to::Php) {
        let from = &document.worker.inner;
        let cwd = from.cwd.as_ref().map(|set| self.absolute(&set.value));
        let php = self.php(document, cwd.as_deref());
        let mut env = from.env.value.0.clone();
        if let Some(app) = &php.app {
            // What the user wrote in worker.env wins.
            env.entry("VHTTPD_APP".into()).or_insert_with(|| app.to_string_lossy().into_owned());
        }
        let pool_size = match from.pool_size.value.get() {
            0 => self.machine.cpus().max(1),
            set => set,
        };
        if from.restart_backoff_ms.value.0 > from.restart_backoff_max_ms.value.0 {
            self.error(
                &blame([&from.restart_backoff_ms.place, &from.restart_backoff_max_ms.place]),
                "`worker.restart_backoff_ms` is longer than `worker.restart_backoff_max_ms`",
                "the first pause cannot exceed the longest",
            );
        }
        let worker = to::Worker {
            command: self.command(document, &php, cwd.as_deref()),
            kind: from.kind.value,
            pool_size,
            socket_dir: self.socket_dir(from, pool_size),
            cwd,
            env,
            connect_timeout: from.connect_timeout_ms.value.0,
            read_timeout: from.read_timeout_ms.value.0,
            start_timeout: from.start_timeout_ms.value.0,
            stream_idle_timeout: from.stream_idle_timeout_ms.value.0,
            queue_capacity: usize::try_from(from.queue_capacity.value.0).unwrap_or(usize::MAX),
            queue_timeout: from.queue_timeout_ms.value.0,
            max_requests: Some(from.max_requests.value.0).filter(|n| *n > 0),
            max_requests_jitter: from.max_requests_jitter.value.0,
            max_rss: Some(from.max_rss.value.0).filter(|bytes| *bytes > 0),
            restart_backoff: from.restart_backoff_ms.value.0,
            restart_backoff_max: from.restart_backoff_max_ms.value.0,
            kill_grace: from.kill_grace_ms.value.0,
            stream_dispatch: from.stream_dispatch.value,
            sockets: self.sockets(from),
            concurrency: from.concurrency.value.get(),
        };
        (worker, php)
    }

    fn php(&mut self, document: &file::Document, cwd: Option<&Path>) -> to::Php {
        let from = &document.php.inner;
        let mut php = to::Php {
            bin: from.bin.value.clone(),
            worker: None,
            app: None,
            args: from.args.value.0.clone(),
        };
        if from.app.value.is_empty() {
            return php;
        }
        // The worker opens the file, so it is looked for from where the worker runs.
        let base = cwd.map_or_else(|| self.machine.working_dir(), Path::to_path_buf);
        php.app = Some(self.absolute(&base.join(&from.app.value)));
        php.worker = match &from.worker {
            Some(set) => Some(self.absolute(&set.value)),
            None => self.packaged_worker(),
        };
        if php.worker.is_none() {
            let advice = format!(
                "set php.worker; looked for {PHP_WORKER} in the working directory and above the program, and for {PHP_WORKER_INSTALLED}"
            );
            self.error(&from.app.place, "the packaged PHP worker was not found", advice);
        }
        php
    }

    fn packaged_worker(&self) -> Option<PathBuf> {
        let program = self.machine.program_dir();
        let above = program.iter().flat_map(|dir| dir.ancestors()).map(|dir| dir.join(PHP_WORKER));
        let here = self.machine.working_dir().join(PHP_WORKER);
        let mut places = [here].into_iter().chain(above).chain([PHP_WORKER_INSTALLED.into()]);
        places.find(|path| self.machine.is_file(path))
    }

    /// The words to run. A program with a `/` is looked for from where the worker runs, and made
    /// absolute: what the system does with a relative one differs.
    fn command(
        &mut self,
        document: &file::Document,
        php: &to::Php,
        cwd: Option<&Path>,
    ) -> Vec<String> {
        let mut words = self.words(document, php);
        if let Some(program) = words.first_mut().filter(|program| program.contains('/')) {
            let path = cwd.unwrap_or(Path::new("")).join(&program);
            *program = self.absolute(&path).to_string_lossy().into_owned();
        }
        words
    }

    fn words(&mut self, document: &file::Document, php: &to::Php) -> Vec<String> {
        let (worker, app) = (&document.worker.inner, &document.php.inner.app);
        let command = worker.command.value.trim();
        let ways = [
            ("worker.command", !command.is_empty(), &worker.command.place),
            ("php.app", php.app.is_some(), &app.place),
            ("worker.sockets", !worker.sockets.value.0.is_empty(), &worker.sockets.place),
        ];
        let used: Vec<_> = ways.iter().filter(|(_, used, _)| *used).collect();
        match used[..] {
            [] => {
                let runs = |path, on: bool| on && in_effect(path);
                let cache = document.cache.inner.resp.inner.listen.value.0.is_some();
                let refused = ways.iter().any(|(key, ..)| self.refused.contains(*key));
                let egress = document.egress.inner.listen.value.0.is_some();
                let elsewhere =
                    document.route.0.iter().any(|route| route.inner.to.value != "worker");
                let other = runs("cache.resp.listen", cache) || runs("egress.listen", egress);
                let other = other || elsewhere;
                if !refused && !other {
                    let message = match &self.sources.file {
                        Some(_) => "nothing to run",
                        None => {
                            "nothing to run: no file was named, and there is no hedgerow.toml here"
                        }
                    };
                    let advice = "set worker.command, php.app or worker.sockets; or a route that \
                                  leads elsewhere, egress.listen or cache.resp.listen";
                    self.error(&Place::Default, message, advice);
                }
            }
            [_] => {}
            [first, second, ..] => {
                let message = format!("`{}` and `{}` are both set", first.0, second.0);
                self.error(second.2, message, "they are different ways to say what runs: keep one");
            }
        }
        if let (Some(_), Some(script)) = (&php.app, &php.worker) {
            let mut words = vec![php.bin.clone()];
            words.extend(php.args.iter().cloned());
            words.push(script.to_string_lossy().into_owned());
            return words;
        }
        match shell_words::split(command) {
            Ok(words) => words,
            Err(_) => {
                let message = "`worker.command` has a quote that is not closed";
                self.error(&worker.command.place, message, "close it, or write \\\" for a quote");
                Vec::new()
            }
        }
    }

    fn socket_dir(&mut self, from: &file::Worker, pool_size: usize) -> Option<PathBuf> {
        let set = from.socket_dir.as_ref()?;
        let dir = self.absolute(&set.value);
        let digits = pool_size.to_string().len().max(2);
        let length = dir.join(format!("worker-{}.sock", "0".repeat(digits))).as_os_str().len();
        if length > LONGEST_SOCKET {
            let message = format!(
                "`worker.socket_dir` is too long: a socket in it has a path of {length} bytes"
            );
            let most = LONGEST_SOCKET - (length - dir.as_os_str().len());
            self.error(&set.place, message, format!("choose a folder of at most {most} bytes"));
        }
        Some(dir)
    }

    fn sockets(&mut self, from: &file::Worker) -> Vec<PathBuf> {
        let set = &from.sockets;
        let sockets: Vec<_> = set.value.0.iter().map(|path| self.absolute(path)).collect();
        if set.value.0.iter().any(|path| path.as_os_str().is_empty()) {
            let advice = "name the socket of each worker, or leave worker.sockets out";
            self.error(&set.place, "`worker.sockets` has a path that is empty", advice);
        }
        for (at, path) in sockets.iter().enumerate() {
            if path.as_os_str().len() > LONGEST_SOCKET {
                let message = format!("`worker.sockets`: {} is too long", path.display());
                let advice = format!("a socket path has at most {LONGEST_SOCKET} bytes");
                self.error(&set.place, message, advice);
            }
            if sockets[..at].contains(path) {
                let message = format!("`worker.sockets` names {} twice", path.display());
                self.error(&set.place, message, "name each worker once");
            }
        }
        sockets
    }
}
